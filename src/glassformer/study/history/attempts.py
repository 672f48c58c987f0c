"""A study's entries in the ledger, and the earlier studies that the ledger has of the same changes. Imports no torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.files import write_json
from glassformer.foundation.plugins import plugin_checksums
from glassformer.study.directory import StudyDirectory
from glassformer.study.history.ledger import BEGUN, SCHEMA, Attempt, Earlier, Ledger
from glassformer.study.planning.plan import BASE, StudyPlan
from glassformer.study.planning.variant_facts import VariantBook
from glassformer.study.statistics.verdict import Verdict


def attempts_of(plan: StudyPlan, book: VariantBook, study: str, verdicts: Mapping[str, Verdict] | None = None) -> list[Attempt]:
    """One ledger entry per inspected change; with ``verdicts``, only for changes that have a result."""
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
                question=fingerprint([base.asked, book.variants[name].asked, base.documents]),
                made=_inputs_fingerprint(plan, book, name),
                name=name,
                rules=rules,
                margin=plan.same_within,
                first_seed=plan.first_seed,
                seeds=plan.all_looks[-1],
                verdict=BEGUN if verdict is None else verdict.verdict,
                p=None if verdict is None or verdict.evidence is None else verdict.evidence.p_corrected,
            )
        )
    return rows


def _inputs_fingerprint(plan: StudyPlan, book: VariantBook, name: str) -> str:
    """A fingerprint of the other inputs of the runs: training text, parents, plugins, tuning grid."""
    grids = None if plan.tune is None else [plan.tune.non_defaults(), plan.tuning_points(name)]
    both = [(facts.data, facts.parent) for facts in (book.variants[BASE], book.variants[name])]
    return fingerprint([grids, both, plugin_checksums(book.plugins)])


def record_earlier_studies(plan: StudyPlan, book: VariantBook, directory: StudyDirectory) -> dict[str, Earlier]:
    """Enters this study in the ledger, finished or not, and stores which earlier studies of the same changes it lists.

    Stored once, when the study begins; a change added later is looked up when it is added.
    """
    before, own = directory.read_earlier(), attempts_of(plan, book, str(directory.root))
    attempts = Ledger.beside(directory.root).begin(own)
    found = {one.name: Earlier.of(one, attempts) for one in own}
    everything = {**found, **before}
    if everything != before or not directory.earlier_file.is_file():
        changes = {name: one.to_dict() for name, one in everything.items()}
        write_json(directory.earlier_file, {"schema": SCHEMA, "changes": changes})
    return everything


def withdraw_attempts(plan: StudyPlan, book: VariantBook, directory: StudyDirectory, names: Collection[str]) -> None:
    """Removes changes without any result from the ledger."""
    own = [one for one in attempts_of(plan, book, str(directory.root)) if one.name in names]
    Ledger.beside(directory.root).withdraw(own)


def refuse_same_runs(plan: StudyPlan, earlier: Mapping[str, Earlier], margin: float) -> None:
    """Raises if a study in a default folder would judge the same runs again by other rules, which is p-hacking."""
    for name, one in earlier.items():
        again = next((other for other in one.overlapping if other in one.others or other.margin != margin), None)
        if again is not None:
            was = "begun" if again.verdict == BEGUN else "judged"
            fresh = max(other.first_seed + other.seeds for other in one.overlapping)
            raise ConfigError(
                f"{name} was {was} in {again.study} on seeds {again.first_seed} to {again.first_seed + again.seeds - 1} "
                f"({again.verdict}, margin {again.margin:g}), and this plan would judge some of these runs again by other "
                f"rules. Take new seeds with --first-seed {fresh}, or name a folder with --out: the verdict then says so.",
                reason="same-runs-other-rules",
            )
