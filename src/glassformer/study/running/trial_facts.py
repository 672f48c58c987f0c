"""A trained run of a study -> what it tells beside its figures, for the conditions of a verdict.

What it learned outside its parameters; how well it predicts the judged text beside text that it was trained on (one that does
better on the judged text has read it); whether a score of the judged text depends on later tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from glassformer.assembly import tools_for
from glassformer.data.token_files import TokenSplit
from glassformer.evaluation.token_losses import evaluating
from glassformer.foundation.errors import CheckFailed
from glassformer.foundation.runtime import choose_device
from glassformer.objectives.base import ObjectiveConfig
from glassformer.run import Run
from glassformer.study.planning.conditions import FACTS

MOST_TOKENS = 20_000
"""Tokens of each text that are measured."""
WINDOWS, CHANGED = 32, 1e-3
"""Windows of the judged text whose second half is exchanged, and the change of a score in the first half, relative to the
largest score, that is no rounding."""


def record_facts(run: Run, judge: ObjectiveConfig, split: str, *, whole: bool) -> None:
    """Adds what the run tells to its environment. ``whole``: also what takes time, for the first seed of a variant; raises
    ``CheckFailed`` where a score depends on later tokens."""
    found: dict[str, Any] = {"learned_outside": learned_outside(run)}
    text = run.data.split(split)
    if whole and judge.judges_windows and isinstance(text, TokenSplit) and "train" in run.data.names:
        if "causality" in judge.laws:
            _require_causal_on(text, run)
        found["text_known"] = text_known(run, judge, text)
    environment = run.directory.read_environment()
    run.directory.write_environment({**environment, FACTS: found})


def learned_outside(run: Run) -> int:
    """Numbers of a checkpoint that training has changed and that are no parameters: buffers with a table of the text, say. Of a
    pretrained encoder none: its code is not a user's."""
    after = run.model_at("last")
    parameters = dict(after.named_parameters(remove_duplicate=False))
    if after.pretrained_source() is not None or parameters.keys() >= after.state_dict().keys():
        return 0
    started = run.untrained().state_dict()
    changed = (
        tensor
        for name, tensor in after.state_dict().items()
        if name not in parameters and not (name in started and torch.equal(started[name].cpu(), tensor.cpu()))
    )
    return sum(tensor.numel() for tensor in changed)


def text_known(run: Run, judge: ObjectiveConfig, judged: TokenSplit) -> dict[str, dict[str, float]]:
    """The loss of the run and of its baselines on the judged text and on training text, about equally long."""
    trained = run.data.split("train")
    size = min(MOST_TOKENS, judged.num_tokens, trained.num_tokens)
    texts = {"judged": _beginning(judged, size), "trained": _beginning(trained, size)}
    tools, network = tools_for(run.recipe, run.tokenizer), run.model_at("last").to(choose_device("auto"))
    found: dict[str, dict[str, float]] = {}
    baselines = run.baselines()
    for name, text in texts.items():
        found.setdefault("run", {})[name] = judge.evaluate(network, text, tools).units["loss"].value
        for baseline, one in baselines.items():
            units = one.evaluate(text, tools).units
            if "loss" in units:
                found.setdefault(baseline, {})[name] = units["loss"].value
    return found


def _beginning(text: TokenSplit, tokens: int) -> TokenSplit:
    """The first documents of a split, at most so many tokens of them; one document is cut."""
    count = int(np.searchsorted(text.starts, tokens, side="left"))
    return replace(text, tokens=text.tokens[:tokens], documents=text.documents[:count])


@torch.no_grad()
def _require_causal_on(text: TokenSplit, run: Run) -> None:
    """Exchanges the second half of windows of the judged text: no score of the first half may change. The check of the
    laws uses ids by chance; here a network is asked where it is judged."""
    device = choose_device("auto")
    network, length = run.model_at("last").to(device), min(run.recipe.model.context, text.num_tokens)
    starts = np.linspace(0, text.num_tokens - length, min(WINDOWS, max(1, text.num_tokens // length))).astype(np.int64)
    ids_BT = torch.from_numpy(np.stack([text.tokens[at : at + length] for at in starts]).astype(np.int64)).to(device)
    half = length // 2
    if half < 1:
        return
    other_BT = ids_BT.clone()
    other_BT[:, half:] = ids_BT[:, half:].flip(1).roll(1, 0)
    with evaluating(network):
        scores, others = (network(ids)[:, :half].float() for ids in (ids_BT, other_BT))
    change = (scores - others).abs().amax() / scores.abs().amax().clamp(min=1e-6)
    if float(change) > CHANGED:
        raise CheckFailed(
            f"causality: on the judged text, later tokens change the scores of earlier ones by {float(change):.3g} of the "
            "largest score.",
            reason="leak-on-judged-text",
        )
