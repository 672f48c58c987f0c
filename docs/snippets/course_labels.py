# docs/snippets/course_labels.py
import glassformer as gf
from glassformer.figures.save import save_figure
from glassformer.figures.style import PALETTE, SOFT, new_axes, styled

measured, orderless = (gf.load(run).evaluate() for run in ("runs/matches", "runs/orderless"))
bars = {"Transformer": measured.metrics["accuracy"], "without positions": orderless.metrics["accuracy"]}
bars |= {name: measured.baselines[name]["accuracy"] for name in ("word pairs", "bag of words", "majority")}
with styled():
    figure, axes = new_axes(7.0, 2.4)
    for place, (name, accuracy) in enumerate(bars.items()):
        print(f"{name}: {accuracy}")
        axes.barh(place, accuracy.value, color=SOFT if name in measured.baselines else PALETTE[0], height=0.6)
        axes.plot([accuracy.low, accuracy.high], [place, place], color="black")
    axes.set(yticks=range(len(bars)), yticklabels=list(bars), xlim=(0, 1.02), xlabel="share of labels that are right")
    axes.invert_yaxis()
save_figure(figure, "runs/labels.svg")
