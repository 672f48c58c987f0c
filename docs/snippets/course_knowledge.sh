# docs/snippets/course_knowledge.sh
glassformer train world-mixed --out runs/world --set data.set.people=100 --set training.steps=300 --set evaluation.every=100
glassformer evaluate runs/world
glassformer ask runs/world "Where was Jahuid Nujibikh born?"
