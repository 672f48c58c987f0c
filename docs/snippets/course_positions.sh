# docs/snippets/course_positions.sh
glassformer compare docstrings-char --vary model.positions=none,alibi --seeds 6 --out runs/positions \
  --set model.layers=2 --set model.width=48 --set model.context=32 --set training.steps=300
