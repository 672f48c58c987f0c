"""The other programs have our sizes: as many parameters as our own formula says."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.benchmark.peers import Sizes, nanogpt_file, nanogpt_model, transformers_model
from glassformer.foundation.errors import UsageError
from glassformer.model.accounting import parts_of

SIZES = Sizes(width=12, layers=2, heads=3, context=10, vocabulary=7, dropout=0.1)


def test_transformers_gpt2_has_our_parameters():
    pytest.importorskip("transformers")
    model = transformers_model(SIZES)
    assert sum(p.numel() for p in model.parameters()) == sum(part.parameters for part in parts_of(SIZES.ours(), 7))
    assert model.config.attn_pdrop == 0.1


def test_nanogpt_gets_our_sizes_and_stays_silent(nanogpt, capsys):
    config = nanogpt_model(nanogpt, SIZES).config
    sizes = (config.block_size, config.vocab_size, config.n_layer, config.n_head, config.n_embd, config.dropout)
    assert sizes == (10, 7, 2, 3, 12, 0.1)
    assert capsys.readouterr().out == ""


def test_a_folder_that_is_not_nanogpt_is_refused():
    with pytest.raises(UsageError, match=r"no model\.py"):
        nanogpt_file(Path("nowhere"), "model.py")
