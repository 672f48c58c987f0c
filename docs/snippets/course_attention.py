# docs/snippets/course_attention.py
import numpy as np

from glassformer.figures.save import save_figure
from glassformer.figures.style import line_look, new_axes, styled

keys = np.array([[1, 0], [0, 1], [-1, -1]])
values = np.array([10, 20, 30])


def attention(query):
    scores = keys @ query  # how much each key is like the query
    powers = np.exp(scores - scores.max())  # without the largest, exp(1000) would be infinite; the weights are the same
    weights = powers / powers.sum()  # softmax: positive, and their sum is one
    return weights, weights @ values  # a mean of the values, under these weights


for length in (0, 1, 4):
    weights, output = attention(length * np.array([0.8944, -0.4472]))
    print(f"a query of length {length}: weights {weights.round(3)}, output {output:.2f}")

angles = np.linspace(0, 360, 361)
turned = [attention(4 * np.array([np.cos(angle), np.sin(angle)]))[0] for angle in np.radians(angles)]
with styled():
    figure, axes = new_axes(7.0, 3.0)
    for number, weights in enumerate(np.transpose(turned)):
        axes.plot(angles, weights, label=f"key {number + 1}", **line_look(number))
    axes.set(xlabel="where a query of length 4 points (degrees)", ylabel="weight", xticks=range(0, 361, 45))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
save_figure(figure, "runs/attention.svg")
