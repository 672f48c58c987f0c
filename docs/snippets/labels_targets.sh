# docs/snippets/labels_targets.sh
echo "text,topics,price" > orders.csv
for n in $(seq 60); do
  printf 'order %s: came late,delivery,%s\norder %s: came late and broke,delivery;quality,%s\norder %s: fine,,%s\n' "$n" "$((50 + n % 7))" "$n" "$((20 + n % 7))" "$n" "$((80 + n % 7))"
done >> orders.csv
glassformer train orders.csv --set objective=multilabel --set data.label_column=topics --set training.steps=60 --out topics
glassformer evaluate topics
glassformer predict topics orders.csv --out topics.csv
glassformer train orders.csv --set objective=regression --set data.label_column=price --set training.steps=60 --out prices
glassformer ask prices "order 61: came late"
