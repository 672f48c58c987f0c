# docs/snippets/labels.sh
for n in $(seq 60); do
  printf 'dog it did bark at %s\ncat it did purr at %s\n' "$n" "$n"
done > animals.txt
cat > animals.yaml <<'RECIPE'
data: {path: animals.txt, format: label-text, split: {validation: 0.4}}
tokenizer: {kind: word, min_count: 1}
objective: labels
model: {width: 16, layers: 1, heads: 2, context: 8, causal: false, head: {kind: classifier, hidden: [8]}}
training: {steps: 60, batch_size: 8, lr: 0.01}
RECIPE
glassformer data show animals.yaml
glassformer train animals.yaml --out animals --quiet
glassformer evaluate animals
glassformer ask animals "it did bark"
