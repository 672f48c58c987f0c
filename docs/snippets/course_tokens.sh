# docs/snippets/course_tokens.sh
mkdir -p runs
python -c "import this" > runs/zen.txt
glassformer tokenizer train runs/zen.txt --vocab 320 --out runs/zen.json
glassformer tokenizer show runs/zen.json " complicated" --out runs/tokens.svg
