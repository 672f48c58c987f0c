import numpy as np

from glassformer.byhand import explore, replace_key, solve

keys = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
answer = solve(keys, "average 1,2", values=np.eye(3), bound=5)
print(answer.reachable, answer.query.round(3), answer.weights.round(3), answer.output.round(3))
print({bound: round(size, 3) for bound, size in answer.to_dict()["margin"].items()})

never = solve([[0, 0], [1, 0], [-1, 0]], "select 1")
print(never.reachable, never.reach.certificate.sentence())

moved = replace_key(keys, "select 3", 3, query=answer.query, length=1)
print(moved.key.round(3), moved.weights.round(3), moved.proven)

swing = explore("heads", draws=500, seed=1)
swing.figure().savefig("heads.png")
