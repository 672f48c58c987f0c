# docs/snippets/course_scale.py
import numpy as np

from glassformer.figures.save import save_figure
from glassformer.figures.style import line_look, log_axis, new_axes, styled


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


draw, widths = np.random.default_rng(0), (4, 16, 64, 256, 1024)
plain, scaled = [], []
for width in widths:
    queries, keys = draw.normal(size=(2000, width)), draw.normal(size=(16, width))
    scores = queries @ keys.T
    plain.append(softmax(scores).max(axis=1).mean())
    scaled.append(softmax(scores / width**0.5).max(axis=1).mean())
    print(f"width {width}: variance of the scores {scores.var():.1f}, largest weight {plain[-1]:.3f}, scaled {scaled[-1]:.3f}")

with styled():
    figure, axes = new_axes(7.0, 3.0)
    axes.plot(widths, plain, marker="o", label="plain", **line_look(0))
    axes.plot(widths, scaled, marker="o", label="divided by sqrt(width)", **line_look(1))
    log_axis(axes.xaxis)
    axes.set(xlabel="width of query and key", ylabel="largest of 16 weights", ylim=(0, 1))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
save_figure(figure, "runs/scale.svg")
