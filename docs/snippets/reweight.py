# docs/snippets/reweight.py
"""Four ways to merge heads, each trained with several seeds and measured in three ways. Writes story/figures.json."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import glassformer as gf
from glassformer.evaluation.interval_estimates import mean
from glassformer.evaluation.token_losses import token_losses

SEEDS, STEPS, TOKENS = (int(word) for word in (sys.argv[1:] or ("5", "3000", "4096")))
MERGES = ["concat", "reweight", "reweight_sequence", "reweight_position"]


@torch.no_grad()
def from_the_past_alone(model, tokens, context):
    """Each token scored from what stands before it in its window and nothing else: as when the model writes."""
    losses = []
    for start in range(0, len(tokens) - 1, context):
        window = torch.tensor(tokens[start : start + context + 1].astype("int64"))
        for t in range(1, len(window)):
            losses.append(F.cross_entropy(model(window[None, :t])[:, -1], window[t : t + 1]).item())
    return sum(losses) / len(losses)


figures = {}
for merge in MERGES:
    found = {"one window at a time": [], "sixteen windows at once": [], "from the past alone": []}
    for seed in range(SEEDS):
        changes = {"model.merge": merge, "training.steps": STEPS}
        run = gf.train("reweight-story", set=changes, seed=seed, out=f"story/{merge}-{seed}", allow_leaks=True)
        model, context = run.model, run.recipe.model.context
        tokens = run.data.split("validation").tokens[: TOKENS + 1]
        alone, among = (token_losses(model, tokens, context=context, batch_size=rows).mean() for rows in (1, 16))
        for losses, loss in zip(found.values(), (alone, among, from_the_past_alone(model, tokens, context))):
            losses.append(float(loss))
    figures[merge] = found
    for way, losses in found.items():
        print(f"{merge:<18} {way:<24} {mean(np.array(losses))}", flush=True)
Path("story/figures.json").write_text(json.dumps(figures, indent=1) + "\n")
