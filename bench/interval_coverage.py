"""How often 95 % intervals hold the truth: ours (jackknife with t) beside the bootstraps, on made-up documents.

    python bench/interval_coverage.py [--evaluations 2000] [--blocks]

A document has a length and a mean loss of its own; each token adds noise. The figure is the loss per token, and, in the
last rows, the mean of the documents' perplexities. Prints a Markdown table; two minutes on one core. ``--blocks``: blocks of
one text whose neighbours are alike, in seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from glassformer.evaluation.interval_estimates import ratio
from glassformer.evaluation.language_metrics import DocumentLosses, language_metrics

RESAMPLES = 999
Texts = tuple[np.ndarray, np.ndarray]
"""Nats and tokens of each document."""


def texts(kind: str, documents: int, rng: np.random.Generator) -> Texts:
    spread = {"equal lengths": 0.0, "unequal lengths": 1.0, "skewed losses": 0.7, "long documents easier": 0.8}[kind]
    size = rng.standard_normal(documents)
    tokens = np.maximum(1.0, np.round(np.exp(3.5 + spread * size)))
    own = {
        "equal lengths": 0.3 * rng.standard_normal(documents),
        "unequal lengths": 0.3 * rng.standard_normal(documents),
        "skewed losses": 0.4 * (rng.exponential(1.0, documents) - 1.0),
        "long documents easier": -0.3 * size + 0.2 * rng.standard_normal(documents),
    }[kind]
    return tokens * (3.0 + own) + np.sqrt(tokens) * 2.5 * rng.standard_normal(documents), tokens


def loss_truth(kind: str) -> float:
    nats, tokens = texts(kind, 8_000_000, np.random.default_rng(1))
    return float(nats.sum() / tokens.sum())


def jackknife(nats: np.ndarray, tokens: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    found = ratio(nats, tokens)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def percentile(nats: np.ndarray, tokens: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    drawn = rng.integers(0, len(nats), (RESAMPLES, len(nats)))
    low, high = np.quantile(nats[drawn].sum(1) / tokens[drawn].sum(1), [0.025, 0.975])
    return float(low), float(high)


def bootstrap_t(nats: np.ndarray, tokens: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    def with_error(n: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = n.sum(-1) / t.sum(-1)
        return value, np.sqrt(((n - value[..., None] * t) ** 2).sum(-1)) / t.sum(-1)

    drawn = rng.integers(0, len(nats), (RESAMPLES, len(nats)))
    value, error = with_error(nats, tokens)
    values, errors = with_error(nats[drawn], tokens[drawn])
    low, high = np.quantile((values - value) / np.maximum(errors, 1e-12), [0.025, 0.975])
    return float(value - high * error), float(value - low * error)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, np.random.Generator], tuple[float, float]]] = {
    "ours": jackknife,
    "percentile bootstrap": percentile,
    "bootstrap-t": bootstrap_t,
}


def loss_rows(kind: str, documents: int, evaluations: int) -> dict[str, float]:
    truth, rng = loss_truth(kind), np.random.default_rng(documents)
    hits = dict.fromkeys(METHODS, 0)
    for _ in range(evaluations):
        drawn = texts(kind, documents, rng)
        for name, method in METHODS.items():
            low, high = method(*drawn, rng)
            hits[name] += low <= truth <= high
    return {name: hit / evaluations for name, hit in hits.items()}


def perplexity_rows(spread: float, documents: int, evaluations: int) -> dict[str, float]:
    """The mean of documents' perplexities, whose logarithms are normal: the harder, the more they spread."""
    truth, rng, tokens = np.exp(4.0 + spread**2 / 2), np.random.default_rng(documents), np.full(documents, 50)
    hits = dict.fromkeys(METHODS, 0)
    unknown = np.full(documents, np.nan)
    for _ in range(evaluations):
        losses = 4.0 + spread * rng.standard_normal(documents)
        made = DocumentLosses(losses * 50, tokens, unknown, unknown, unknown, np.zeros(documents, np.int64), documents)
        found = language_metrics(made)["document_perplexity"]
        assert found.low is not None
        assert found.high is not None
        hits["ours"] += found.low <= truth <= found.high
        for name in ("percentile bootstrap", "bootstrap-t"):
            low, high = METHODS[name](np.exp(losses), np.ones(documents), rng)
            hits[name] += low <= truth <= high
    return {name: hit / evaluations for name, hit in hits.items()}


def block_rows(blocks: int, correlation: float, evaluations: int) -> dict[str, float]:
    """Coverage of the mean of blocks, each ``correlation`` times the one before it plus noise."""
    rng, tokens, hits = np.random.default_rng(blocks), np.full(blocks, 1000.0), {"ours": 0, "as if independent": 0}
    for _ in range(evaluations):
        noise = rng.standard_normal(blocks + 100)
        for at in range(1, len(noise)):
            noise[at] += correlation * noise[at - 1]
        for name, alike in (("ours", True), ("as if independent", False)):
            found = ratio((3 + 0.1 * noise[100:]) * tokens, tokens, blocks=alike)
            assert found.low is not None
            assert found.high is not None
            hits[name] += found.low <= 3 <= found.high
    return {name: hit / evaluations for name, hit in hits.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=2000)
    parser.add_argument("--blocks", action="store_true")
    asked = parser.parse_args()
    evaluations = asked.evaluations
    if asked.blocks:
        print("| blocks | lag-1 correlation | ours | as if independent |\n|---:|---:|---:|---:|")
        for blocks in (20, 110):
            for correlation in (0.0, 0.35, 0.6):
                shares = block_rows(blocks, correlation, evaluations)
                print(f"| {blocks} | {correlation} | " + " | ".join(f"{share:.1%}" for share in shares.values()) + " |")
        return
    print("| figure | documents | " + " | ".join(METHODS) + " |\n|---|---:|" + "---:|" * len(METHODS))
    for kind in ("equal lengths", "unequal lengths", "skewed losses", "long documents easier"):
        for documents in (10, 30, 100):
            shares = loss_rows(kind, documents, evaluations)
            print(
                f"| loss, {kind} | {documents} | " + " | ".join(f"{share:.1%}" for share in shares.values()) + " |", flush=True
            )
    for spread in (0.3, 1.0):
        for documents in (10, 30, 100):
            shares = perplexity_rows(spread, documents, evaluations)
            name = f"document_perplexity, log spread {spread}"
            print(f"| {name} | {documents} | " + " | ".join(f"{share:.1%}" for share in shares.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
