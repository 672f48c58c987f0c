# docs/snippets/course_leak.py
import numpy as np
import torch
from matplotlib.figure import Figure

import glassformer as gf
from glassformer.figures.attention import scale
from glassformer.figures.save import save_figure
from glassformer.figures.style import styled


def influence(merge):
    """How much the scores at each place (down) move when the character at each place (across) is another one."""
    one_step = {"model.merge": merge, "training.steps": 1, "evaluation.batch_size": 512}
    model = gf.train("reweight-story", set=one_step, out=f"runs/leak-{merge}", allow_leaks=True).model
    text = torch.arange(8)[None]
    with torch.no_grad():
        changed = [model(text + 9 * torch.eye(8, dtype=int)[place]) for place in range(8)]
        return torch.stack([(scores - model(text)).abs().amax(-1)[0] for scores in changed], 1).numpy()


maps = {merge: influence(merge) for merge in ("concat", "reweight_sequence", "reweight_position")}
with styled():
    figure = Figure(figsize=(7.0, 2.8), layout="constrained")
    for axes, (merge, moved) in zip(figure.subplots(1, 3), maps.items()):
        print(f"{merge}: a later character moves an earlier score by at most {np.triu(moved, 1).max():.4f}")
        axes.imshow(moved > 1e-6, cmap=scale(), vmin=0, vmax=1.3)
        axes.set(title=merge, xlabel="character that is changed", ylabel="scores that move")
        axes.grid(visible=False)
save_figure(figure, "runs/leak.svg")
