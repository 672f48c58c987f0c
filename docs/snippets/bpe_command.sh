# docs/snippets/bpe_command.sh
python -c "import this" > zen.txt
glassformer tokenizer train zen.txt --vocab 300 --out tok.json
glassformer tokenizer encode tok.json " better than"
glassformer tokenizer show tok.json " better" --out word.svg
