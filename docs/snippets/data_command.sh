# docs/snippets/data_command.sh
printf 'One line.\nAnother line.\nOne line.\nA third one.\n' > lines.txt
glassformer data show lines.txt --document line --count 2
cat lines.txt | glassformer data stats - --document line --tokenizer word --out lengths.svg
