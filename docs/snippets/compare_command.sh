glassformer compare docstrings-char --vary model.positions=rotary,none --seeds 2 \
  --set model.width=16 --set model.layers=1 --set model.heads=2 --set model.context=16 --set training.steps=60 \
  --out studies/positions --quiet
glassformer report studies/positions
