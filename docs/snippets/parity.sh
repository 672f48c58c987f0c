# docs/snippets/parity.sh
small="--set tokenizer=byte --set objective=parity --set model.head=untied --set model.layers=1 --set model.context=8"
small="$small --set training.steps=12 --set evaluation.every=6 --set checkpoint.every=6"
glassformer data show docstrings-char --plugin parity.py $small --count 3
glassformer train docstrings-char --plugin parity.py $small --out parity-run
glassformer evaluate parity-run --plugin parity.py
