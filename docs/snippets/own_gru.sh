# docs/snippets/own_gru.sh
small="--plugin own_gru.py --set model.context=32 --set training.steps=20 --set evaluation.every=20"
glassformer train docstrings-char --set 'model={kind: gru, width: 32}' $small --dry-run
glassformer train docstrings-char --set 'model={kind: gru, width: 32}' $small --out gru-run
glassformer look gru-run "Return the" --plugin own_gru.py
