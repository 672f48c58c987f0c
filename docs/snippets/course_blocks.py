# docs/snippets/course_blocks.py
import glassformer as gf
from glassformer.figures.curves import Curve, Points, learning_curves
from glassformer.figures.save import save_figure

small = {
    "model.width": 32,
    "model.heads": 4,
    "model.layers": 6,
    "model.context": 32,
    "training.steps": 200,
    "evaluation.every": 20,
}
changes = {
    "whole": {},
    "no residual sums": {"model.block": "no_residual"},
    "no norms": {"model.norm": "none"},
    "one neuron": {"model.feedforward": {"kind": "relu", "inner": 1}},
}
curves = []
for name, change in changes.items():
    run = gf.train("docstrings-char", set=small | change, out=f"runs/blocks-{name.replace(' ', '-')}", threads=1)
    rows = [(row["step"], row["validation_loss"]) for row in run.records() if "validation_loss" in row]
    curves.append(Curve(name, validation=Points.of(*zip(*rows))))
    print(f"{name}: validation loss {rows[-1][1]:.3f}, {sum(p.numel() for p in run.model.parameters()):,} parameters")
save_figure(learning_curves(curves), "runs/blocks.svg")
