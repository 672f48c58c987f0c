"""Windows, losses and modes of ``token_losses``: by hand on a lookup-table model, and by law."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.refusals import refused
from torch import nn

from glassformer.evaluation import token_losses as language
from glassformer.evaluation.language_baselines import trivial_baselines
from glassformer.evaluation.language_metrics import EvaluatedText
from glassformer.evaluation.token_losses import document_losses, evaluate_language, loss_chunks, token_losses
from glassformer.foundation.errors import UsageError

V, N = 7, 53


@pytest.fixture
def tokens() -> np.ndarray:
    return np.random.default_rng(3).integers(0, V, N).astype(np.uint16)


class Embedding(nn.Module):
    """A bigram model: the logits depend on the present token only, so windows cannot matter."""

    def __init__(self) -> None:
        super().__init__()
        self.table_VV = nn.Parameter(torch.randn(V, V, generator=torch.Generator().manual_seed(5)))
        self.shapes: list[tuple[int, ...]] = []
        self.dropout, self.frozen = nn.Dropout(0.5), nn.Dropout(0.5)
        self.frozen.eval()

    def forward(self, ids_BT: torch.Tensor) -> torch.Tensor:
        assert not self.training
        assert not torch.is_grad_enabled()
        self.shapes.append(tuple(ids_BT.shape))
        return self.dropout(self.table_VV[ids_BT])


def count_in_window(ids_BT: torch.Tensor) -> torch.Tensor:
    """Sees only its place: at position t it gives id 0 the probability (t + 1) / (t + 2) and id 1 the rest."""
    t = torch.arange(ids_BT.shape[1], dtype=torch.float64)
    return torch.log(torch.stack([(t + 1) / (t + 2), 1 / (t + 2)], dim=-1)).expand(len(ids_BT), -1, -1)


def test_by_hand() -> None:
    losses = token_losses(count_in_window, np.array([1, 0, 0, 1, 0, 1]), context=2, batch_size=3)
    # targets 0 0 | 1 0 | 1 at the positions 0 1 | 0 1 | 0: probabilities 1/2, 2/3, 1/2, 2/3, 1/2
    np.testing.assert_allclose(losses, -np.log([1 / 2, 2 / 3, 1 / 2, 2 / 3, 1 / 2]), rtol=1e-6)
    assert losses.dtype == np.float64


@pytest.mark.parametrize("context", [1, 5, 13, 52, 400])
@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_windows_cannot_matter_to_a_model_without_memory(tokens: np.ndarray, context: int, batch_size: int) -> None:
    model = Embedding()
    expected = -torch.log_softmax(model.table_VV.double(), -1)[tokens[:-1].astype(int), tokens[1:].astype(int)]
    losses = token_losses(model, tokens, context=context, batch_size=batch_size)
    np.testing.assert_allclose(losses, expected.detach().numpy(), rtol=1e-5)
    assert sum(rows * length for rows, length in model.shapes) == N - 1  # each token once
    assert max(rows for rows, _ in model.shapes) <= batch_size
    assert {length for _, length in model.shapes} <= {min(context, N - 1), (N - 1) % context}


def test_every_part_gets_its_mode_back_even_when_stopped(tokens: np.ndarray) -> None:
    model, calls = Embedding().train(), []
    model.frozen.eval()

    def stop_at_third() -> None:
        calls.append(len(model.shapes))
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        token_losses(model, tokens, context=5, batch_size=2, keep_going=stop_at_third)
    assert calls == [0, 1, 2]
    assert (model.training, model.dropout.training, model.frozen.training) == (True, True, False)
    assert torch.is_grad_enabled()


def test_progress_sums_to_the_predicted_tokens(tokens: np.ndarray) -> None:
    steps: list[int] = []
    token_losses(Embedding(), tokens, context=5, batch_size=2, progress=steps.append)
    assert sum(steps) == N - 1
    assert steps[:2] == [5, 10]  # one window to learn the vocabulary, then two at a time


def test_a_large_vocabulary_lowers_the_batch(tokens: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = token_losses(Embedding(), tokens, context=5, batch_size=32)
    monkeypatch.setattr(language, "MAX_LOGITS", 2 * 5 * V + 1)
    monkeypatch.setattr(language, "MAX_SOFTMAX", 3 * V)
    model = Embedding()
    np.testing.assert_array_equal(token_losses(model, tokens, context=5, batch_size=32), whole)
    assert max(rows for rows, _ in model.shapes) == 2


@pytest.mark.parametrize("size", [0, 1])
def test_nothing_to_predict(size: int) -> None:
    assert token_losses(Embedding(), np.zeros(size, np.int64), context=3).shape == (0,)


def test_memory_mapped_tokens(tokens: np.ndarray, tmp_path) -> None:
    tokens.tofile(tmp_path / "tokens.bin")
    mapped = np.memmap(tmp_path / "tokens.bin", dtype=np.uint16, mode="r")
    np.testing.assert_array_equal(token_losses(Embedding(), mapped, context=5), token_losses(Embedding(), tokens, context=5))


def test_documents_and_positions_in_one_pass(tokens: np.ndarray) -> None:
    text, model = EvaluatedText(tokens, np.array([0, 11, 30])), Embedding()
    losses = token_losses(model, tokens, context=5)
    documents, positions = document_losses(model, text, context=5, batch_size=3)
    np.testing.assert_allclose(documents.nats, [losses[:10].sum(), losses[10:29].sum(), losses[29:].sum()], rtol=1e-12)
    assert positions is not None
    np.testing.assert_allclose(positions.mean, [losses[t::5].mean() for t in range(5)], rtol=1e-12)
    assert document_losses(model, text, context=5, by_position=False)[1] is None


@pytest.mark.parametrize("wrong", [lambda ids: ids, lambda ids: (torch.zeros(*ids.shape, V),)])
def test_a_callable_without_logits_is_refused(wrong, tokens: np.ndarray) -> None:
    with refused(UsageError, "logits-shape"):
        token_losses(wrong, tokens, context=5)


def test_sizes_below_one_are_refused(tokens: np.ndarray) -> None:
    with refused(UsageError, "bad-windows", "context=0"):
        list(loss_chunks(Embedding(), tokens, context=0))


def test_not_a_number_is_kept_as_it_is(tokens: np.ndarray) -> None:
    losses = token_losses(lambda ids: torch.full((*ids.shape, V), torch.nan), tokens, context=5)
    assert np.isnan(losses).all()


def test_everything_at_once(tokens: np.ndarray) -> None:
    text, model = EvaluatedText(tokens, np.array([0, 11, 30])), Embedding()
    found = evaluate_language(
        model,
        text,
        name="validation",
        context=5,
        baselines=trivial_baselines(tokens, V),
        untrained=lambda ids: torch.zeros(*ids.shape, V),
        batch_size=3,
    )
    assert list(found.baselines) == ["uniform", "unigram", "bigram", "untrained"]
    assert found.metrics["loss"].value == pytest.approx(token_losses(model, tokens, context=5).mean(), rel=1e-12)
    assert found.baselines["untrained"]["perplexity"].value == pytest.approx(V, rel=1e-6)
    assert (found.name, found.details["tokens"], found.details["documents"]) == ("validation", N - 1, 3)
    assert found.trivial == ("uniform", "unigram", "untrained")
    assert len(found.details["loss_by_position"]["mean"]) == 5
    # a table of random logits knows nothing
    assert "not better than the unigram baseline" in found.notes[0]
    assert "not better than the bigram baseline" in found.notes[1]


def test_a_network_cannot_reach_the_targets_through_its_inputs(tokens: np.ndarray) -> None:
    """Inputs and targets are views of one tensor; what a network gets has memory of its own."""
    reached = []

    def reads_its_memory(ids_BT: torch.Tensor) -> torch.Tensor:
        reached.append(ids_BT.untyped_storage().nbytes() - ids_BT.nbytes)
        return torch.zeros(*ids_BT.shape, 64)

    token_losses(reads_its_memory, tokens, context=8)
    assert set(reached) == {0}
