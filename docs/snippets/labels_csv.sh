# docs/snippets/labels_csv.sh
echo "review,stars" > reviews.csv
for n in $(seq 100); do
  printf '"kettle %s: works well, would buy again",good\n"lamp %s: broke, a waste of money",bad\n' "$n" "$n"
done >> reviews.csv
glassformer train reviews.csv --set data.text_column=review --set data.label_column=stars --set training.steps=60
glassformer evaluate runs/reviews --predictions predictions.tsv
glassformer ask runs/reviews "a chair that broke"
glassformer predict runs/reviews reviews.csv --out labelled.csv --precision 0.95
glassformer data labels reviews.csv --text-column review --label-column stars
