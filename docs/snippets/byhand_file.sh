cat > problem.yaml <<'YAML'
goal: average 1,2
keys: [[1, 0], [0, 1], [-1, -1]]
values: [[1], [2], [4]]
bound: 5
scale: 1/sqrt(d)
YAML
glassformer byhand problem.yaml --out answer.html
