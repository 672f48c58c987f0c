"""The noise of real studies beside what the rule for verdicts assumed: seed noise, its pairing, and the share of documents.

    python bench/seed_noise.py STUDY... [--out RESULT.json]

For each finished study: the standard deviation over seeds of the baseline's loss, with its interval; and for each change
the standard deviation of the paired differences, the correlation of paired runs, and the share of the variance of the mean
difference that comes from the documents (blocks of the text where it is one document) and not from the seeds. Trains nothing.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.foundation.distributions import chi_square_quantile
from glassformer.foundation.files import write_json
from glassformer.study.planning.plan import BASE
from glassformer.study.study import Study

ASSUMED = {"seed_sd": 0.01, "correlation": (0.0, 0.7), "documents": (200, 2000)}
"""What the simulations behind the rule took (docs/statistics.md): nats per token, paired seeds, evaluated documents."""
FEWEST = 4  # seeds below which a standard deviation says next to nothing


def spread(values: np.ndarray) -> dict[str, Any]:
    """A standard deviation over seeds with its 95 % interval (chi-square)."""
    n = len(values)
    sd = float(np.std(values, ddof=1))
    low, high = (sd * math.sqrt((n - 1) / chi_square_quantile(level, n - 1)) for level in (0.975, 0.025))
    return {"value": sd, "low": low, "high": high, "n": n}


def correlation_of(base: np.ndarray, own: np.ndarray) -> float | None:
    """Over paired seeds, which is what pairing gains; None with too few of them or without variance."""
    n = min(len(base), len(own))
    return float(np.corrcoef(base[:n], own[:n])[0, 1]) if n >= 3 and base[:n].std() * own[:n].std() > 0.0 else None


def noise_of(study: Study) -> dict[str, Any]:
    """The noise of one study. Changes with a bad run are left out: their spread is that of failures."""
    base = study.seed_values(BASE)
    rows = []
    for verdict in study.verdicts:
        evidence = verdict.evidence
        if evidence is None or verdict.verdict == "invalid" or evidence.seeds < FEWEST:
            continue
        rows.append(
            {
                "variant": verdict.variant,
                "own_sd": spread(study.seed_values(verdict.variant)),
                "paired_sd": spread(np.array(evidence.seed_differences)),
                "correlation": correlation_of(base, study.seed_values(verdict.variant)),
                "document_share": evidence.effects.document_share,
                "documents": evidence.documents,
            }
        )
    return {"study": study.folder.name, "base_sd": spread(base) if len(base) >= FEWEST else None, "changes": rows}


def text_of(results: list[dict[str, Any]]) -> str:
    """The table for people, and what was assumed below it."""
    lines = [
        "study | change | sd of a run | sd of paired differences | correlation | documents' share | documents",
        "-|-|-|-|-|-|-",
    ]
    for one in results:
        if one["base_sd"] is not None:
            lines.append(f"{one['study']} | baseline | {_shown(one['base_sd'])} | | | |")
        for row in one["changes"]:
            own, paired = _shown(row["own_sd"]), _shown(row["paired_sd"])
            together = "" if row["correlation"] is None else f"{row['correlation']:.2f}"
            cells = [one["study"], row["variant"], own, paired, together, f"{row['document_share']:.2f}", str(row["documents"])]
            lines.append(" | ".join(cells))
    low, high = ASSUMED["correlation"]
    fewest, most = ASSUMED["documents"]
    lines += [
        "",
        f"Assumed: sd of a run {ASSUMED['seed_sd']}; correlation {low:g} to {high:g}; {fewest} to {most:,} documents.",
    ]
    every = [one["base_sd"]["value"] for one in results if one["base_sd"] is not None]
    together = [row["correlation"] for one in results for row in one["changes"] if row["correlation"] is not None]
    if every and together:
        lines.append(
            f"Found: sd of a run {min(every):.4f} to {max(every):.4f} over {len(every)} baselines; "
            f"correlation {min(together):.2f} to {max(together):.2f}, median {float(np.median(together)):.2f}, "
            f"over {len(together)} changes."
        )
    return "\n".join(lines)


def _shown(sd: dict[str, Any]) -> str:
    return f"{sd['value']:.4f} [{sd['low']:.4f}, {sd['high']:.4f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", type=Path, nargs="+", metavar="STUDY")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the result as JSON")
    options = parser.parse_args()
    results = [noise_of(Study.load(folder)) for folder in options.studies]
    print(text_of(results))
    if options.out is not None:
        write_json(options.out, {"assumed": {**ASSUMED}, "studies": results})


if __name__ == "__main__":
    main()
