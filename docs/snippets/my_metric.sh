# docs/snippets/my_metric.sh
small="--set model.layers=1 --set model.context=32 --set training.steps=20 --set evaluation.every=20"
glassformer train docstrings-char --plugin my_metric.py --set objective=next-token-and-capitals $small --out capitals
glassformer evaluate capitals --plugin my_metric.py
