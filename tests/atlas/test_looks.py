"""Further looks: cells that are not decided get more seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.atlas.test_atlas import ATLAS, MACHINE, WEIGHTS, Later, Made, made_portion

from glassformer.atlas.cells import Cell, cells, undecided
from glassformer.atlas.protocol import BASELINE, Atlas, Job, Stage
from glassformer.atlas.records import Records, trial_line
from glassformer.study.statistics.corrections import USUAL_LOOKS, USUAL_THRESHOLDS

ROWS = {"alibi": (-0.05, 0.001), "no-positions": (0.0, 0.05), "partial-rotary": (0.039, 0.03)}
"""Effect, and noise over seeds that alternates: decided at 6 seeds, at none, at 12. They are of one family."""


class Noisy(Made):
    def loss(self, job: Job) -> float:
        effect, noise = ROWS.get(job.row, (0.0, 0.0))
        return 2.0 + effect + (noise if job.seed % 2 else -noise)


class Same(Noisy, Later):
    """Other code that trains the same."""


class OneRowDiffers(Same):
    def loss(self, job: Job) -> float:
        return super().loss(job) + 0.001 * (job.row == "no-positions")


def planned(size: str, *, looks: bool) -> Atlas:
    """The three rows on one text, with further looks or without."""
    first = Stage(size=size, texts=["wikitext-2"], rows=[*ROWS])
    more = [Stage(size=size, texts=["wikitext-2"], looks=True)] if looks else []
    return replace(ATLAS, protocol=ATLAS.protocol.model_copy(update={"stages": [first, *more], "bank": 8}))


def by_name(atlas: Atlas, records: Records, size: str) -> dict[str, Cell]:
    return {one.row.name: one for one in cells(atlas, records) if (one.text, one.size) == ("wikitext-2", size)}


def seeds_of(jobs: list[Job]) -> dict[str, list[int]]:
    return {row: sorted(job.seed for job in jobs if job.row == row) for row in {job.row for job in jobs}}


def test_every_place_with_rows_has_its_further_looks_after_its_first() -> None:
    where: dict[bool, list[tuple[tuple[str, str, str], int]]] = {False: [], True: []}
    for at, stage in enumerate(ATLAS.protocol.stages):
        if stage.looks or ATLAS.stage_rows(stage):
            where[stage.looks] += [((text, stage.size, stage.base), at) for text in stage.texts]
    assert tuple(ATLAS.protocol.looks) == USUAL_LOOKS
    assert dict(where[False]).keys() == dict(where[True]).keys()
    assert all(at < dict(where[True])[place] for place, at in where[False])


@pytest.mark.parametrize("size", ["XS", "S"])
def test_what_is_not_decided_goes_on_look_by_look(size: str) -> None:
    """A bank stays; a baseline that is paired gets the seeds of its rows."""
    atlas, records = planned(size, looks=True), Records()
    made_portion(Noisy, planned(size, looks=False), records).run()
    next_look = seeds_of(made_portion(Noisy, atlas, records).open_jobs(MACHINE))
    own = {BASELINE: [6, 7]} if size == "S" else {}
    assert next_look == {"no-positions": [6, 7], "partial-rotary": [6, 7], **own}
    portion = made_portion(Noisy, atlas, records)
    portion.run()
    own = {BASELINE: [*range(6, 16)]} if size == "S" else {}
    assert seeds_of(portion.ran) == {"no-positions": [*range(6, 16)], "partial-rotary": [*range(6, 12)], **own}
    order = [(next(look for look in USUAL_LOOKS if job.seed < look), job.row != BASELINE) for job in portion.ran]
    assert order == sorted(order) or size == "XS"  # without a baseline to wait for, a row may be a look ahead of the others
    found = by_name(atlas, records, size)
    assert [found[name].word for name in ROWS] == ["better", "not decided", "worse"]
    assert [found[name].verdict and found[name].verdict.seeds_run for name in ROWS] == [6, 16, 12]
    assert "--seeds 12 " in found["partial-rotary"].command
    again = made_portion(Noisy, atlas, records)
    again.run()
    assert again.ran == []


def test_all_looks_in_one_call_are_those_of_several() -> None:
    ran = []
    for stages in ([True], [False, True]):
        records, jobs = Records(), []
        for looks in stages:
            portion = made_portion(Noisy, planned("S", looks=looks), records)
            portion.run()
            jobs += portion.ran
        ran.append(seeds_of(jobs))
    assert ran[0] == ran[1]
    assert ran[0][BASELINE] == [*range(16)]


def test_runs_of_other_code_are_added_to_where_its_first_run_has_the_same_bits() -> None:
    first, atlas = planned("S", looks=False), planned("S", looks=True)
    records = Records()
    made_portion(Noisy, first, records).run()
    before = dict(records.trials)
    unknown = seeds_of(made_portion(Noisy, atlas, records).open_jobs("another"))
    assert unknown == {name: [*range(6)] for name in (BASELINE, *ROWS)}  # nothing shows that it trains the same
    same = made_portion(Same, atlas, records)
    same.run()
    assert seeds_of(same.ran) == {
        BASELINE: [0, *range(6, 16)],
        "no-positions": [0, *range(6, 16)],
        "partial-rotary": [0, *range(6, 12)],
    }
    found = by_name(atlas, records, "S")
    assert [len(found[name].losses) for name in ROWS] == [6, 16, 12]
    assert [found[name].others for name in ROWS] == [(), (), ()]
    records.trials = before
    other = made_portion(OneRowDiffers, atlas, records)
    other.run()
    assert seeds_of(other.ran) == {**seeds_of(same.ran), "no-positions": [*range(16)]}  # whole, by this code alone
    assert by_name(atlas, records, "S")["partial-rotary"].word == "worse"


# -- words -------------------------------------------------------------------------------------------------------------------


def noisy_records(runs: dict[str, list[int]], *, document_noise: float = 0.0, rates: dict[str, float] | None = None) -> Records:
    """Paired records of these seeds, at S."""
    records, rng = Records(), np.random.default_rng(0)
    documents = document_noise * rng.standard_normal(len(WEIGHTS))
    records.include({"k": "machine", "id": MACHINE, "about": {}}, "made")
    records.include({"k": "text", "text": "wikitext-2", "documents": "d", "weights": WEIGHTS}, "made")
    for name, seeds in runs.items():
        effect, noise = ROWS.get(name, (0.0, 0.0))
        for seed in seeds:
            values = 2.0 + effect + (noise if seed % 2 else -noise) + documents * (name != BASELINE)
            about = {"recipe": name, "against": BASELINE, "machine": MACHINE, "documents": "d", "problem": None}
            job = Job(name, "wikitext-2", "S", seed, (rates or {}).get(name, 1.0))
            records.include(trial_line(job, values=values + np.zeros(len(WEIGHTS)), **about), "made")
    return records


def judged(records: Records) -> dict[str, tuple[str, int, float]]:
    """By row: its word, at how many seeds, at which level."""
    found = {}
    for name, cell in by_name(ATLAS, records, "S").items():
        if cell.verdict is not None and cell.verdict.evidence is not None:
            found[name] = cell.word, cell.verdict.evidence.seeds, cell.verdict.evidence.level
    return found


def test_a_row_that_goes_on_is_judged_at_its_own_look_beside_one_that_was_decided() -> None:
    """The family has a third row here that is planned and was not run."""
    six = judged(noisy_records({BASELINE: [*range(6)], "alibi": [*range(6)], "no-positions": [*range(6)]}))
    assert six["alibi"] == ("better", 6, USUAL_THRESHOLDS[3][0])
    assert six["no-positions"] == ("not decided", 6, USUAL_THRESHOLDS[2][0])
    for look, seeds in enumerate(USUAL_LOOKS[1:], 1):
        own = judged(noisy_records({BASELINE: [*range(seeds)], "alibi": [*range(6)], "no-positions": [*range(seeds)]}))
        assert own["alibi"] == six["alibi"]
        assert own["no-positions"] == ("not decided", seeds, USUAL_THRESHOLDS[2][look])


@pytest.mark.parametrize(
    ("baseline", "row", "seeds"),
    [
        ([*range(8)], [*range(7)], 6),  # the portion ended in between
        ([*range(7)], [*range(8)], 6),
        ([*range(8)], [*range(6), 7, 8], 6),  # a killed process: pairs are of one seed
        ([*range(9)], [*range(8)], 8),
    ],
)
def test_a_look_is_judged_when_both_have_its_seeds(baseline: list[int], row: list[int], seeds: int) -> None:
    records = noisy_records({BASELINE: baseline, "no-positions": row})
    assert judged(records)["no-positions"][:2] == ("not decided", seeds)
    assert undecided(ATLAS, records, ("wikitext-2", "S", "modern"))["no-positions"][1] == seeds


@pytest.mark.parametrize(("row", "word"), [("alibi", "better"), ("no-positions", "invalid")])
def test_a_run_that_fails_beyond_its_baseline(row: str, word: str) -> None:
    """A decision is final, whatever fails later."""
    records = noisy_records({BASELINE: [*range(6)], row: [*range(8)]})
    for key, one in records.trials.items():
        if (one.job.row, one.job.seed) == (row, 7):
            records.trials[key] = replace(one, values=None, problem="diverged")
    cell = by_name(ATLAS, records, "S")[row]
    assert cell.word == word
    assert cell.verdict is not None
    assert cell.verdict.failed_seeds == ((7,) if word == "invalid" else ())


def test_no_more_seeds_where_documents_are_what_is_missing() -> None:
    place = ("wikitext-2", "S", "modern")
    runs = {name: [*range(6)] for name in (BASELINE, "no-positions")}
    assert undecided(ATLAS, noisy_records(runs), place).keys() == {"no-positions"}
    records = noisy_records(runs, document_noise=0.5)
    assert judged(records)["no-positions"][0] == "not decided"
    assert undecided(ATLAS, records, place) == {}


def test_controls_and_decided_rows_need_no_more_seeds() -> None:
    runs = {name: [*range(6)] for name in (BASELINE, "alibi", "placebo-eps", "ruler-fewer-parameters")}
    records = noisy_records(runs)
    for key, one in records.trials.items():
        if one.job.row in ("placebo-eps", "ruler-fewer-parameters") and one.values is not None:
            records.trials[key] = replace(one, values=one.values + 0.05 * (-1) ** one.job.seed)
    assert {judged(records)[name][0] for name in runs if name not in (BASELINE, "alibi")} == {"not decided"}
    assert undecided(ATLAS, records, ("wikitext-2", "S", "modern")) == {}


def test_further_looks_at_another_rate_do_not_hide_the_tuned_one() -> None:
    """And it is the rate that the row should have that goes on."""
    records = noisy_records({BASELINE: [*range(8)], "no-positions": [*range(8)]}, rates={"no-positions": 0.5})
    other = noisy_records({BASELINE: [*range(8)], "no-positions": [*range(6)]})
    atlas = planned("S", looks=True)
    jobs = [job for job in made_portion(Noisy, atlas, records).open_jobs(MACHINE) if job.row == "no-positions"]
    assert [(job.rate, job.seed) for job in jobs] == [(1.0, seed) for seed in range(6)]
    assert judged(records)["no-positions"][1] == 8
    records.trials |= other.trials
    assert judged(records)["no-positions"][1] == 6
