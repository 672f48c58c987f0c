# docs/snippets/huggingface.sh
glassformer train docstrings-char --out runs/small --quiet --set training.steps=5 --set model.width=32 --set model.context=32
glassformer export runs/small small-hf
glassformer import small-hf --out runs/imported
glassformer evaluate runs/imported --text "Return the number of items." --quiet
glassformer generate runs/imported "Return" --max-new-tokens 20 --quiet
glassformer train runs/imported/recipe.yaml --out runs/tuned --quiet --set init_from=runs/imported --set data.set=docstrings \
  --set training.steps=5
