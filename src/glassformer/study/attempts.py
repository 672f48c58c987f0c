"""A plan and what its variants are -> the lines of the ledger, and what the ledger says came before. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.files import write_json
from glassformer.study.directory import StudyDirectory
from glassformer.study.ledger import SCHEMA, Attempt, Earlier, Ledger
from glassformer.study.plan import BASE, StudyPlan
from glassformer.study.variants import VariantBook
from glassformer.study.verdict import Verdict


def attempts_of(plan: StudyPlan, book: VariantBook, study: str, verdicts: Mapping[str, Verdict] | None = None) -> list[Attempt]:
    """One per change that is known and, where ``verdicts`` are given, was run."""
    if BASE not in book.variants:
        return []
    base = book.variants[BASE]
    known = [change.name for change in plan.changes if change.name in book.variants]
    rules = fingerprint([plan.judged.name, plan.split, plan.all_looks, plan.alpha, plan.design, list(plan.bank)])
    planned = sorted(book.variants[change.name].recipe for change in plan.planned if change.name in known)
    whole = fingerprint([rules, plan.same_within, plan.first_seed, base.recipe, base.documents, planned])
    rows = []
    for name in known:
        verdict = None if verdicts is None else verdicts[name]
        if verdict is not None and verdict.evidence is None and verdict.verdict != "invalid":
            continue
        rows.append(
            Attempt(
                study=study,
                plan=whole,
                base=base.recipe,
                change=book.variants[name].recipe,
                text=base.documents,
                name=name,
                rules=rules,
                margin=plan.same_within,
                first_seed=plan.first_seed,
                seeds=plan.all_looks[-1],
                verdict="" if verdict is None else verdict.verdict,
                p=None if verdict is None or verdict.evidence is None else verdict.evidence.p_corrected,
            )
        )
    return rows


def note_earlier(plan: StudyPlan, book: VariantBook, directory: StudyDirectory) -> dict[str, Earlier]:
    """Writes down, once, what other studies of the same changes the ledger knows; a change added later is looked up then."""
    before = directory.read_earlier()
    attempts = Ledger.beside(directory.root).attempts()
    found = {one.name: Earlier.of(one, attempts) for one in attempts_of(plan, book, str(directory.root))}
    everything = {**found, **before}
    if everything != before or not directory.earlier_file.is_file():
        changes = {name: one.to_dict() for name, one in everything.items()}
        write_json(directory.earlier_file, {"schema": SCHEMA, "changes": changes})
    return everything


def refuse_same_runs(plan: StudyPlan, earlier: Mapping[str, Earlier], margin: float) -> None:
    """A folder that was not asked for by name must not judge the same runs by other rules: that is how one fools oneself."""
    for name, one in earlier.items():
        again = next((other for other in one.overlapping if other in one.others or other.margin != margin), None)
        if again is not None:
            fresh = max(other.first_seed + other.seeds for other in one.overlapping)
            raise ConfigError(
                f"{name} was judged in {again.study} on seeds {again.first_seed} to {again.first_seed + again.seeds - 1} "
                f"({again.verdict}, margin {again.margin:g}), and this plan would judge some of these runs again by other "
                f"rules; take fresh seeds with --first-seed {fresh}, or name a folder with --out to judge them again, marked."
            )
