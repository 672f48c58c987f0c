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
from glassformer.evaluation.token_losses import MAX_LOGITS, token_losses
from glassformer.foundation.errors import CheckFailed
from glassformer.foundation.runtime import choose_device
from glassformer.model.network import Network, evaluating
from glassformer.objectives.base import ObjectiveConfig
from glassformer.run import Run
from glassformer.study.planning.conditions import FACTS

MOST_TOKENS = 20_000
"""Tokens of each text that are measured."""
PLACES, CHANGED = 512, 1e-3
"""Tokens of the judged text whose loss is computed once more without what follows them, and the mean change, as a share of the
mean loss, that is no rounding."""


def record_facts(run: Run, judge: ObjectiveConfig, split: str, *, whole: bool) -> None:
    """Adds what the run tells to its environment. ``whole``: also what takes time, for the first seed of a variant; raises
    ``CheckFailed`` where a score depends on later tokens."""
    found: dict[str, Any] = {"learned_outside": learned_outside(run)}
    text = run.data.split(split)
    if whole and judge.judges_windows and isinstance(text, TokenSplit) and "train" in run.data.names:
        if "causality" in judge.laws:
            network = run.model_at("last").to(choose_device("auto"))
            require_fair_losses(network, text.tokens, run.recipe.model.context)
        found["text_known"] = text_known(run, judge, text)
    environment = run.directory.read_environment()
    run.directory.write_environment({**environment, FACTS: found})


def learned_outside(run: Run) -> int:
    """Numbers of a checkpoint that training has changed and that are no parameters: buffers with a table of the text, say; a
    wide one counts as often as four bytes fit into it. Of a pretrained encoder none: its code is not a user's."""
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
    return sum(max(tensor.numel(), tensor.nbytes // 4) for tensor in changed)


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


LEAST_LOSS = 1e-2
"""Nats: below it, losses in float32 and in float64 differ by more than ``CHANGED`` of themselves."""


def require_fair_losses(network: Network, tokens: np.ndarray, context: int) -> None:
    """Raises ``CheckFailed`` where the losses that a network is judged by are not those that it has if what follows a token is
    not there: whichever way it sees the token itself, later ones or other rows. The checks of the laws use ids by chance; here
    a network is asked on the judged text, in its judge's own way, at places that nobody can foresee."""
    length, chance = min(context, len(tokens) - 1), np.random.default_rng()
    if length < 2:
        return
    windows = (len(tokens) - 1) // length
    first = int(chance.integers(max(1, windows - max(1, MOST_TOKENS // length) + 1))) * length
    tokens = np.asarray(tokens[first : first + max(length, MOST_TOKENS // length * length) + 1])
    windows = (len(tokens) - 1) // length
    number = min(PLACES, max(32, MOST_TOKENS // length), 4 * windows)
    places = chance.integers(windows, size=number) * length + chance.integers(1, length + 1, size=number)
    judged = token_losses(network, tokens[: windows * length + 1], context=length)[places - 1]
    blind = losses_without_the_future(network, tokens, places, length, chance)
    change = float(np.abs(blind - judged).mean()) / max(float(blind.mean()), LEAST_LOSS)
    if not change <= CHANGED:
        raise CheckFailed(
            f"causality: on the judged text its mean loss is {judged.mean():.4g}, and {blind.mean():.4g} where later tokens "
            "and other rows are exchanged before it is asked: it sees what it has to predict.",
            reason="leak-on-judged-text",
        )


@torch.no_grad()
def losses_without_the_future(
    network: Network, tokens: np.ndarray, places: np.ndarray, length: int, chance: np.random.Generator
) -> np.ndarray:
    """The loss of the token at each place, as it is defined: the network is given what stands before the token in its window,
    and from there on text from elsewhere, in rows of another order. Which token it was is looked up afterwards; the softmax is
    numpy's, so that nobody's cross-entropy but this one counts."""
    starts, elsewhere = (places - 1) // length * length, chance.integers(len(tokens) - length, size=len(places))
    rows = [
        np.r_[tokens[start:place], tokens[other : other + start + length - place]]
        for start, place, other in zip(starts, places, elsewhere)
    ]
    ids_NT, found = np.stack(rows).astype(np.int64), []
    device = next(network.parameters()).device
    rows_at_once = max(1, min(32, MAX_LOGITS // (length * network.dims.vocabulary)))
    with evaluating(network):
        for first in range(0, len(places), rows_at_once):
            some = slice(first, first + rows_at_once)
            scores_BTV = network(torch.from_numpy(ids_NT[some]).to(device))
            last_BV = scores_BTV[range(len(scores_BTV)), places[some] - starts[some] - 1].double().cpu().numpy()
            last_BV -= last_BV.max(-1, keepdims=True)
            found.append(np.log(np.exp(last_BV).sum(-1)) - last_BV[range(len(last_BV)), tokens[places[some]]])
    return np.concatenate(found)
