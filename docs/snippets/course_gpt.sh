# docs/snippets/course_gpt.sh
glassformer train docstrings-char --out runs/first --set model.positions=rotary --set model.layers=2 \
  --set model.width=64 --set model.context=64 --set training.steps=400 --set evaluation.every=40
glassformer generate runs/first "Return " --max-new-tokens 120 --seed 1
