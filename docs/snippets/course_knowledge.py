# docs/snippets/course_knowledge.py
import numpy as np

import glassformer as gf
from glassformer.figures.save import save_figure
from glassformer.figures.style import PALETTE, SOFT, new_axes, styled

details = gf.load("runs/world").evaluate().details
groups = {"people it read about": details["answers"], "people who do not exist": details["nowhere"]["answers"]}
with styled():
    figure, axes = new_axes(7.0, 2.2)
    for row, (name, answers) in enumerate(groups.items()):
        sure = np.array([answer["confidence"] for answer in answers])
        colours = [PALETTE[0] if answer.get("right") else PALETTE[1] if row == 0 else SOFT for answer in answers]
        axes.scatter(sure, row + 0.12 * (np.arange(len(sure)) % 5 - 2), color=colours, s=26)
        surest = answers[int(sure.argmax())]
        print(
            f"{len(answers)} {name}: mean confidence {sure.mean():.2f}; the surest: {surest['question']} {surest['answer']}",
            end=" ",
        )
        print(f"({sure.max():.0%})")
    axes.set(yticks=range(len(groups)), yticklabels=list(groups), xlim=(0, 1), xlabel="confidence of the answer")
    axes.set_ylim(1.5, -0.5)
save_figure(figure, "runs/knowledge.svg")
