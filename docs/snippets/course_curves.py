# docs/snippets/course_curves.py
import glassformer as gf
from glassformer.figures.curves import Curve, Points, learning_curves
from glassformer.figures.save import save_figure

run = gf.load("runs/overfitted")
rows = run.records()
train = Points.of(*zip(*[(row["step"], row["loss"]) for row in rows if "loss" in row]))
validation = Points.of(*zip(*[(row["step"], row["validation_loss"]) for row in rows if "validation_loss" in row]))
save_figure(learning_curves([Curve("", train, validation)]), "runs/curves.svg")
for name in ("overfitted", "cold"):
    for finding in gf.load(f"runs/{name}").diagnosis():
        print(f"{name}: {finding.code}. {finding.sign}")
