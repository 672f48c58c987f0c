# docs/snippets/look.sh
glassformer train docstrings-char --out runs/small --quiet --set training.steps=5 --set model.width=32 --set model.context=32 \
  --set checkpoint.film=4
glassformer look runs/small "Return the name." --layer 0 --head 1
glassformer look runs/small "Return the name." --hide 3 --json > look.json
glassformer look runs/small "Return the name." --compare untrained --out page.html
glassformer look runs/small "Return the name." --film --out film.html
glassformer look runs/small "Return the name." --layer 0 --out map.svg
glassformer look runs/small "Return the name." --ablate zero
