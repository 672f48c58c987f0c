# docs/snippets/course_looking.py
import glassformer as gf
from glassformer.figures.save import save_figure

run = gf.load("runs/letters")
for step in ("untrained", "last"):
    look = run.look("kxqzvbmkxqzvbmkxqzvbm", checkpoint=step)
    best = max(look.head_table(), key=lambda row: row["induction"])
    print(f"{step}: best induction score {best['induction']:.2f} (layer {best['layer']}, head {best['head']});", end=" ")
    print(f"a letter costs {look.losses[1:7].mean():.2f} nats in the first reading, {look.losses[8:].mean():.2f} afterwards")
save_figure(look.figure(best["layer"], best["head"]), "runs/looking.svg")
for row in look.head_table():
    with look.without(layer=row["layer"], head=row["head"]):
        cost = look.again().losses[8:].mean()
    print(f"without head {row['layer']}.{row['head']}: {cost:.2f} (weight one place back: {row['previous']:.2f})")
