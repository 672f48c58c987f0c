"""bench/study_table.py: merging in order lasts for a ``with``, and figures are those of the run's own losses."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model


def test_reweighting_is_switched_off_and_on_again(bench: ModuleType) -> None:
    sizes = {"width": 12, "heads": 3, "layers": 2, "context": 7}
    leaky, honest = (
        build_model(ModelConfig.parse({**sizes, "merge": kind}), 11, seed=1).eval() for kind in ("reweight", "concat")
    )
    ids_BT = torch.randint(11, (2, 5), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = leaky(ids_BT)
        with bench.merged_in_order(leaky):
            torch.testing.assert_close(leaky(ids_BT), honest(ids_BT))
        assert torch.equal(leaky(ids_BT), before)
        assert not torch.allclose(before, honest(ids_BT))


def test_perplexities_of_splits_and_texts(bench: ModuleType, trained: Path) -> None:
    import glassformer as gf

    run = gf.load(trained)
    found = bench.perplexities(run, run.model, ["train", "validation"], documents=10_000)
    losses = bench.token_losses(run.model, run.data.split("validation").tokens, context=run.recipe.model.context)
    assert found["validation"] == pytest.approx(float(np.exp(losses.mean())), rel=1e-6)
    assert list(found)[:2] == ["train", "validation"]
