# docs/snippets/my_attention.sh
glassformer check docstrings-char --plugin my_attention.py --set model.mixer=window
glassformer train docstrings-char --plugin my_attention.py --set model.mixer=window --set training.steps=20 --out my-run
glassformer evaluate my-run --plugin my_attention.py
