# docs/snippets/my_attention.sh
small="--set model.layers=2 --set model.context=32 --set training.steps=20 --set evaluation.every=20"
glassformer check docstrings-char --plugin my_attention.py --set model.mixer=window $small
glassformer train docstrings-char --plugin my_attention.py --set model.mixer=window $small --out my-run
glassformer generate my-run "Return the" --plugin my_attention.py --max-new-tokens 20
