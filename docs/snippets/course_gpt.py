# docs/snippets/course_gpt.py
import math

import glassformer as gf
from glassformer.figures.curves import Curve, Points, learning_curves
from glassformer.figures.save import save_figure

run = gf.load("runs/first")
measured = run.evaluate()
levels = {name: figures["loss"].value for name, figures in measured.baselines.items()}
told = {0: levels.pop("untrained")} | {row["step"]: row["validation_loss"] for row in run.records() if "validation_loss" in row}
curve = Points.of(list(told), list(told.values()))
save_figure(learning_curves([Curve("", validation=curve)], baselines=levels), "runs/gpt.svg")

print({name: round(loss, 3) for name, loss in levels.items()}, "model:", measured.metrics["loss"])
symbols = run.model.embedding.num_embeddings
print(f"{symbols} symbols: ln {symbols} = {math.log(symbols):.3f}; the untrained model: {told[0]:.3f}")
