"""A study's entries in the ledger, and the earlier studies that the ledger has of the same questions. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from glassformer.foundation.config import fingerprint
from glassformer.foundation.files import training_code_sha256, write_json
from glassformer.foundation.plugins import plugin_checksums
from glassformer.study.directory import StudyDirectory
from glassformer.study.history.ledger import SCHEMA, Attempt, Earlier, Ledger, pack
from glassformer.study.planning.plan import BASE, StudyPlan
from glassformer.study.planning.variant_facts import VariantBook
from glassformer.study.statistics.verdict import Verdict
from glassformer.study.values_file import StudyValues

FOUND = ("better", "worse")


def ledger_of(plan: StudyPlan, book: VariantBook) -> Ledger:
    return Ledger.of(book.variants[BASE].documents, f"{plan.judged.name} on {plan.split}")


def attempts_of(
    plan: StudyPlan,
    book: VariantBook,
    study: str,
    verdicts: Mapping[str, Verdict] | None = None,
    values: StudyValues | None = None,
) -> list[Attempt]:
    """One ledger entry per inspected change; with ``verdicts`` and ``values``, only for changes that have a result."""
    if BASE not in book.variants:
        return []
    base = book.variants[BASE]
    known = [change for change in plan.changes if change.name in book.variants]
    rules = [plan.same_within, plan.all_looks, plan.alpha, plan.design, list(plan.bank), plan.first_seed]
    planned = sorted(book.variants[change.name].recipe for change in plan.planned if change in known)
    whole = fingerprint([rules, base.recipe, planned])
    left = len(plan.planned) if verdicts is None else sum(verdicts[one.name].verdict not in FOUND for one in plan.planned)
    rows = []
    for change in known:
        own, verdict = book.variants[change.name], None if verdicts is None else verdicts[change.name]
        if verdict is not None and verdict.evidence is None and verdict.verdict != "invalid":
            continue
        grids = None if plan.tune is None else [plan.tune.non_defaults(), plan.tuning_points(change.name)]
        inputs = [grids, base.data, base.parent, own.data, own.parent, plugin_checksums(book.plugins), training_code_sha256()]
        begun = Attempt(
            study=study,
            plan=whole,
            question=fingerprint([base.asked, own.asked]),
            code=fingerprint(inputs),
            name=change.name,
            margin=plan.same_within,
            labels=plan.seed_numbers,
            base=base.settings,
            sets={**change.set, **own.matched},
            left=max(1, left),
        )
        rows.append(begun if verdict is None or values is None else _judged(begun, plan, verdict, values))
    return rows


def _judged(begun: Attempt, plan: StudyPlan, verdict: Verdict, values: StudyValues) -> Attempt:
    """The entry with the result: its differences where they may be analysed with those of other studies."""
    base, own = (values.variants[name].trials for name in (BASE, begun.name))
    runs = min(base.seeds, own.seeds) if plan.design == "paired" else own.seeds
    poolable = plan.design == "paired" and plan.tune is None and verdict.verdict != "invalid"
    d = own.values[:runs] - base.values[:runs] if poolable else None
    whole = d is not None and bool(np.isfinite(d).all())
    used = values.weights > 0.0
    means = base.values[:runs, used] @ (values.weights[used] / values.weights.sum()) if whole else np.zeros(0)
    return replace(
        begun,
        word=verdict.verdict,
        analyses=verdict.analyses,
        failed=tuple(begun.labels[at] for at in own.unstable()),
        base_failed=tuple(begun.labels[at] for at in base.unstable()) if plan.design == "paired" else (),
        runs=runs,
        base_means=tuple(float(mean) for mean in means),
        differences=pack(d) if whole and d is not None else None,
    )


def record_earlier_studies(plan: StudyPlan, book: VariantBook, directory: StudyDirectory) -> dict[str, Earlier]:
    """Enters this study in the ledger, finished or not, and stores which earlier studies of the same questions it lists.

    Stored once, when the study begins; a change added later is looked up when it is added.
    """
    before, own = directory.read_earlier(), attempts_of(plan, book, str(directory.root))
    attempts = ledger_of(plan, book).begin(own)
    found = {one.name: Earlier.of(one, attempts) for one in own}
    everything = {**found, **before}
    if everything != before or not directory.earlier_file.is_file():
        changes = {name: one.to_dict() for name, one in everything.items()}
        write_json(directory.earlier_file, {"schema": SCHEMA, "changes": changes})
    return everything


def withdraw_attempts(plan: StudyPlan, book: VariantBook, directory: StudyDirectory, names: Collection[str]) -> None:
    """Removes changes without any result from the ledger."""
    own = [one for one in attempts_of(plan, book, str(directory.root)) if one.name in names]
    ledger_of(plan, book).withdraw(own)
