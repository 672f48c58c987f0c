# docs/snippets/course_orderless.sh
glassformer compare docstrings-char --vary model.positions=none --seeds 6 --out runs/orders \
  --set model.layers=2 --set model.width=64 --set model.context=64 --set training.steps=500 \
  --set evaluation.every=250 --set checkpoint.every=250
