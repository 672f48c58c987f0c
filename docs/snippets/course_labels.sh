# docs/snippets/course_labels.sh
glassformer train runs/matches.yaml --out runs/matches
glassformer evaluate runs/matches
glassformer train runs/matches.yaml --out runs/orderless --set model.positions=none
glassformer ask runs/matches "red barely lost to tired blue at night"
