"""The walk-through: its numbers are the model's own and fit together; every variant can be walked through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refused
from torch import nn

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.byte import ByteTokenizer
from glassformer.foundation.errors import BadArgument
from glassformer.lens.look import Look
from glassformer.lens.walk import NOTHING_ADDED, code_of, render_walk, walk
from glassformer.model.config import ModelConfig
from glassformer.model.slots import BLOCKS, FEEDFORWARDS, MERGES, MIXERS, NORMS, POSITIONS, Mixer
from glassformer.model.transformer import build_model

IDS = [5, 9, 2, 9, 5, 1]


def looked(network: nn.Module) -> Look:
    tokenizer: Tokenizer = ByteTokenizer()
    return Look(network, tokenizer, IDS)


def model(**choices: Any) -> nn.Module:
    sizes = {"width": 12, "heads": 3, "layers": 2, "context": 16}
    return build_model(ModelConfig.parse({**sizes, **choices}, at="model"), 257, seed=4).eval()


def steps_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in document["steps"]}


def test_the_numbers_fit_together() -> None:
    network = model()
    document = walk(looked(network), 3)
    steps = steps_of(document)

    def vector(name: str) -> np.ndarray:
        return np.array(steps[name]["values"][0])

    np.testing.assert_allclose(vector("embedding"), network.embedding.weight[IDS[3]].detach().numpy(), atol=1e-6)
    seen = np.array(steps["blocks.0.attention.mixer.scores"]["values"])[:, :4]
    weights = np.array(steps["blocks.0.attention.mixer.pattern"]["values"])
    np.testing.assert_allclose(np.exp(seen) / np.exp(seen).sum(-1, keepdims=True), weights[:, :4], atol=1e-5)
    assert (weights[:, 4:] == 0).all()
    np.testing.assert_allclose(vector("blocks.0.middle"), vector("embedded") + vector("blocks.0.attention.output"), atol=1e-5)
    np.testing.assert_allclose(vector("blocks.0.after"), vector("blocks.0.middle") + vector("blocks.0.feedforward"), atol=1e-5)
    merged, heads = vector("blocks.0.attention.merged"), np.array(steps["blocks.0.attention.heads"]["values"])
    np.testing.assert_allclose(merged, heads.ravel(), atol=1e-6)
    logits = network(torch.tensor([IDS]))[0, 3].detach()
    shown = steps["head"]
    np.testing.assert_allclose(shown["values"][0], logits.sort(descending=True).values[:8].numpy(), atol=1e-5)
    assert shown["shape"] == [1, 6, 257]


def test_steps_come_in_the_order_in_which_they_run() -> None:
    names = [step["name"].rpartition(".")[2] for step in walk(looked(model()))["steps"]]
    layer = ["attention_norm", "query", "key", "value", "scores", "pattern", "heads", "merged", "output", "middle"]
    layer += ["feedforward_norm", "neurons", "feedforward", "after"]
    assert names == ["embedding", "embedded", *layer, *layer, "final_norm", "head"]


def test_looking_changes_nothing() -> None:
    network = model(dropout=0.5).train()
    ids = torch.tensor([IDS])
    before = network.eval()(ids)
    network.train()
    walk(looked(network))
    assert network.training
    assert not any(part._forward_hooks for part in network.modules())
    assert torch.equal(network.eval()(ids), before)


@pytest.mark.parametrize(
    ("slot", "name"),
    [
        (key, name)
        for key, slot in {
            "mixer": MIXERS,
            "positions": POSITIONS,
            "merge": MERGES,
            "norm": NORMS,
            "feedforward": FEEDFORWARDS,
            "block": BLOCKS,
        }.items()
        for name in slot.names()
    ],
)
def test_every_variant_can_be_walked_through(slot: str, name: str) -> None:
    behind = slot == "mixer" and MIXERS.get(name).borrows_keys  # it takes the keys of a layer before it
    choices = {slot: ["dot", name] if behind else name} | ({"positions": "none"} if slot == "mixer" else {})
    document = walk(looked(model(**choices)))
    assert document["steps"][0]["name"] == "embedding"
    assert document["steps"][-1]["kind"] == "outputs"
    assert len(document["steps"]) >= 6
    described = [step for step in document["steps"] if step["code"]]
    assert len(described) >= len(document["steps"]) - 2


def test_a_part_without_a_step_shows_what_comes_in_and_goes_out() -> None:
    class Doubled(nn.Module):
        def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
            return 2 * x_BTD

    network = model()
    network.blocks[1].surprise = Doubled()
    plain = type(network.blocks[1]).forward
    network.blocks[1].forward = lambda *words: network.blocks[1].surprise(plain(network.blocks[1], *words))
    step = steps_of(walk(looked(network)))["blocks.1.surprise"]
    assert step["title"] == "surprise"
    np.testing.assert_allclose(np.array(step["values"]), 2 * np.array(step["in"]), rtol=1e-4, atol=1e-5)


def test_a_mixer_without_taps() -> None:
    class Shifted(Mixer):
        def forward(self, x_BTD: torch.Tensor, attention_context: Any, positions: Any, cache: Any) -> torch.Tensor:
            return x_BTD.unflatten(-1, (3, -1)).transpose(1, 2)

    network = model()
    network.blocks[0].attention.mixer = Shifted()
    names = list(steps_of(walk(looked(network))))
    assert "blocks.0.attention.heads" in names
    assert "blocks.0.attention.mixer.scores" not in names


def test_the_line_of_code_is_the_one_that_calls_it() -> None:
    found = code_of(model(), "blocks.0.attention.merged")
    assert "self.merged(" in found["code"]
    assert found["where"].startswith("transformer.py:")
    assert code_of(nn.Linear(2, 2), "absent.part") == {"code": None, "where": None}


def test_scores_and_softmax_show_different_lines() -> None:
    """Both are called in one line: the inner call is shown alone, below the line that computed what it is given."""
    scores, pattern = (code_of(model(), f"blocks.0.attention.mixer.{name}")["code"] for name in ("scores", "pattern"))
    assert scores != pattern
    made, call = scores.splitlines()
    assert call == "self.scores(scores_BHTS)"
    assert made.startswith("scores_BHTS")


@pytest.mark.parametrize(("positions", "added"), [("learned", True), ("rotary", False)])
def test_it_says_where_no_position_is_added(positions: str, added: bool) -> None:
    step = steps_of(walk(looked(model(positions=positions))))["embedded"]
    assert (step["text"] != NOTHING_ADDED) == added


def test_a_position_that_is_not_there() -> None:
    with refused(BadArgument, "bad-position", "position"):
        walk(looked(model()), 6)
    assert walk(looked(model()), -6)["position"] == 0


def test_the_page_is_whole_and_holds_no_markup_of_the_text() -> None:
    page = render_walk(looked(model()))
    assert 'id="walk-data"' in page
    assert "drawWalk(" in page
    assert "https://" not in page
    assert page.count("</script>") == 2
