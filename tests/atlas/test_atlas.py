"""The atlas: rows, jobs, records, cells."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.atlas.cells import COPY, RULERS, Curve, base_rate, cells, rate_of
from glassformer.atlas.protocol import BASELINE, Atlas, Job
from glassformer.atlas.records import Records, add, read_portion, trial_line
from glassformer.atlas.running import Portion, _Plan
from glassformer.foundation.errors import RunError, UnknownName
from glassformer.recipe import Recipe
from glassformer.study.planning.size_matching import size_of
from glassformer.study.running.executors.base import InlineExecutor, Task
from glassformer.study.running.perform_task import perform

ATLAS = Atlas.load()
ROWS = sorted(name for name, row in ATLAS.rows.items() if row.role == "row")
MACHINE, WEIGHTS = "m" * 12, [5, 11, 7, 13, 3, 17, 19, 2, 23, 29]


def test_forty_rows_and_controls() -> None:
    roles = [row.role for row in ATLAS.rows.values()]
    assert len(ROWS) >= 40
    assert (roles.count("placebo"), roles.count("leak")) == (4, 2)
    assert {*RULERS, "ruler-fewer-parameters"} == {name for name, row in ATLAS.rows.items() if row.role == "ruler"}
    assert {row for row, _, _, _ in ATLAS.cells()} == ATLAS.rows.keys()
    assert all(len(own) <= 9 for own in ATLAS.families.values())
    with pytest.raises(UnknownName):
        ATLAS.row("swigloo")


@pytest.mark.parametrize("size", ["XS", "S"])
def test_every_row_is_a_recipe_of_the_baselines_size(size: str) -> None:
    def parameters(name: str) -> int:
        return size_of(Recipe.parse(ATLAS.recipe(Job(name, "wikitext-2", size, 0))).model, 256, "parameters", 1)

    base = parameters(BASELINE)
    assert base == {"XS": 1_017_536, "S": 10_720_896}[size]
    off = {name: parameters(name) / base for name in ATLAS.rows}
    far = {name for name, ratio in off.items() if abs(ratio - 1.0) > ATLAS.protocol.match_above}
    declared = {name for name, row in ATLAS.rows.items() if not row.match or row.parameters != 1.0}
    assert far - declared <= {"random-synthesizer"}  # its table of scores is larger than the rest of the model at XS
    assert off["ruler-fewer-parameters"] == pytest.approx(0.9, abs=0.005)


def test_steps_rates_and_seeds_of_jobs() -> None:
    recipe = ATLAS.recipe(Job("ruler-half-steps", "boolq-passages", "XS", 3, rate=2.0))
    assert recipe["training"]["steps"] == ATLAS.protocol.sizes["XS"].steps // 2
    assert recipe["training"]["lr"] == pytest.approx(2 * ATLAS.protocol.sizes["XS"].lr)
    assert recipe["seed"] == 3
    assert list(ATLAS.seeds(BASELINE, "XS")) == list(range(1000, 1032))
    assert list(ATLAS.seeds(BASELINE, "S")) == list(ATLAS.seeds("swiglu", "S")) == list(range(6))
    assert ATLAS.seeds("placebo-other-seeds", "XS")[0] == 200


# -- rate curves -------------------------------------------------------------------------------------------------------------


def test_best_rate_by_hand() -> None:
    # 1 + (x - 0.5)^2 with x = log2(rate): the vertex is at half a doubling
    losses = tuple(tuple(1.0 + (x - 0.5) ** 2 + wobble for wobble in (-0.01, 0.01)) for x in (-1, 0, 1))
    curve = Curve((0.5, 1.0, 2.0), losses)
    assert curve.best == pytest.approx(2**0.5, rel=1e-3)
    assert curve.next_rate is None
    falling = Curve((0.5, 1.0, 2.0), ((3.0, 3.0), (2.0, 2.0), (1.5, 1.5)))
    assert (falling.best, falling.next_rate) == (2.0, 4.0)
    diverging = Curve((0.5, 1.0, 2.0), ((3.0, 3.0), (2.0, 2.0), (float("nan"), 1.0)))
    assert diverging.best == 1.0
    assert Curve((0.5, 1.0, 2.0), ((1.0,), (1.04,), (1.2,))).working == 1.0


# -- cells from records ------------------------------------------------------------------------------------------------------


def made(
    effects: dict[str, float], *, size: str = "XS", noise: float = 0.004, seed: int = 0, machine: str = MACHINE
) -> Records:
    """Records of rows whose loss differs from the baseline's by ``effects``, with noise over seeds."""
    rng, records = np.random.default_rng(seed), Records()
    documents = rng.normal(1.5, 0.2, len(WEIGHTS))
    records.include({"k": "machine", "id": machine, "about": {}}, "made")
    records.include({"k": "text", "text": "wikitext-2", "documents": "d", "weights": WEIGHTS}, "made")
    for name in (BASELINE, *effects):
        about = {"row": name, "size": size, "base": "modern", "machine": machine, "parameters": 10, "step_flops": 10}
        records.include({"k": "variant", **about, "leak": None}, "made")
        for number in ATLAS.seeds(name, size):
            values = documents + effects.get(name, 0.0) + rng.normal(0, noise) + rng.normal(0, 0.001, len(WEIGHTS))
            job = Job(name, "wikitext-2", size, number)
            rest = {"recipe": name, "against": BASELINE, "machine": machine, "documents": "d", "problem": None}
            records.include(trial_line(job, values=values, tokens_per_second=100.0, seconds=1.0, **rest), "made")
    return records


def words(records: Records, size: str = "XS") -> dict[str, str]:
    return {one.row.name: one.word for one in cells(ATLAS, records) if (one.text, one.size) == ("wikitext-2", size)}


def test_words_of_made_records() -> None:
    effects = {"swiglu": -0.05, "gelu": 0.05, "layer-norm": 0.0, COPY: 0.0, "ruler-half-steps": 0.1, "ruler-double-steps": -0.1}
    found = words(made(effects))
    assert [found[name] for name in ("swiglu", "gelu", "layer-norm", COPY)] == ["better", "worse", "same", "same"]
    assert found["dyt"] == "open"
    paired = words(made({"swiglu": -0.05, "gelu": 0.0}, size="S"), "S")
    assert (paired["swiglu"], paired["post-norm"]) == ("better", "open")


def test_worth_in_steps_and_trend() -> None:
    effects = {"swiglu": -0.05, COPY: 0.0, "ruler-half-steps": 0.1, "ruler-double-steps": -0.1}
    records = made(effects)
    cell = next(one for one in cells(ATLAS, records) if one.row.name == "swiglu" and one.size == "XS" and one.word != "open")
    assert cell.worth is not None
    assert cell.worth.more_steps.value == pytest.approx(2**0.5 - 1, abs=0.08)  # 0.05 of 0.1 nats a doubling
    for line in _lines(made({"swiglu": -0.15}, size="S", seed=1)):
        records.include({**line, "parameters": 100} if line["k"] == "variant" else line, "made")
    grown = next(one for one in cells(ATLAS, records) if (one.row.name, one.size, one.text) == ("swiglu", "S", "wikitext-2"))
    assert grown.trend is not None
    assert grown.trend.word == "grows"


def test_at_equal_time_by_the_speed_of_this_kind_of_machine() -> None:
    effects = {"swiglu": -0.05, COPY: 0.0, "ruler-half-steps": 0.1, "ruler-double-steps": -0.1}
    records = made(effects)
    for machine, value in (("other", 4.0), ("later", 0.5)):
        records.include({"k": "machine", "id": machine, "about": {"device": machine} if machine == "other" else {}}, "made")
        about = {"row": "swiglu", "size": "XS", "base": "modern", "machine": machine}
        records.include({"k": "speed", **about, "value": value}, "made")
    cell = next(one for one in cells(ATLAS, records) if one.row.name == "swiglu" and one.size == "XS" and one.word != "open")
    assert cell.worth is not None
    assert cell.speed == 0.5
    assert cell.worth.at_equal_time.value == pytest.approx((1 + cell.worth.more_steps.value) / 2 - 1)


def test_speeds_are_measured_in_turns_and_recorded(small: Atlas) -> None:
    stream, records = io.StringIO(), Records()
    portion = Portion(small, records, stream, lambda logs: InlineExecutor(perform))
    portion.measure_speeds(["swiglu", "gelu"], "XS", rounds=3)
    lines = [line for line in map(json.loads, stream.getvalue().splitlines()) if line["k"] == "speed"]
    assert [(line["row"], line["n"]) for line in lines] == [("swiglu", 3), ("gelu", 3)]
    assert all(0 < line["low"] <= line["value"] <= line["high"] for line in lines)
    assert {key[0]: value for key, value in records.speeds.items()} == {line["row"]: line["value"] for line in lines}
    assert portion.done == 2


def _lines(records: Records) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = [{"k": "machine", "id": MACHINE, "about": {}}, *records.texts.values()]
    lines += records.variants.values()
    for one in records.trials.values():
        rest = {key: getattr(one, key) for key in ("recipe", "against", "machine", "documents", "problem", "values", "seconds")}
        lines.append(trial_line(one.job, **rest))
    return lines


def test_a_smaller_margin_gives_other_words_and_an_incomplete_bank_none() -> None:
    records = made({"layer-norm": 0.0})
    strict = {one.row.name: one.word for one in cells(ATLAS, records, margin=0.0005) if one.text == "wikitext-2"}
    assert (words(records)["layer-norm"], strict["layer-norm"]) == ("same", "not decided")
    records.trials = {key: one for key, one in records.trials.items() if one.job.seed != 1031}
    assert words(records)["layer-norm"] == "open"


def test_results_of_another_machine_stay_beside() -> None:
    records = made({"swiglu": -0.05})
    for line in _lines(made({"swiglu": 0.0}, seed=5, machine="n" * 12)):
        records.include(line, "other")
    cell = next(one for one in cells(ATLAS, records) if one.row.name == "swiglu" and one.word != "open")
    assert len(cell.others) == 1


def test_of_two_codes_the_one_that_came_further_is_judged() -> None:
    """Both have a whole bank, with other values; a row of the second alone must not stay open."""
    records = made({"swiglu": -0.05})
    for line in _lines(made({"swiglu": 0.0, "gelu": 0.05}, seed=5, machine="n" * 12)):
        records.include(line, "other")
    assert (words(records)["gelu"], words(records)["swiglu"]) == ("worse", "same")
    records.trials = {key: one for key, one in records.trials.items() if one.machine == MACHINE or one.job.seed != 1031}
    assert (words(records)["gelu"], words(records)["swiglu"]) == ("open", "better")  # the second bank is not whole


@pytest.mark.parametrize("size", ["XS", "S"])
def test_a_change_that_changes_nothing_is_not_testable(size: str) -> None:
    """By its values: equal to the baseline of its own seeds, which a bank has under the name of a placebo."""
    records = made({COPY: 0.0, "sliding-window": 0.0, "gelu": 0.0}, size=size)
    same = {one.job.seed: one.values for one in records.select(row=COPY if size == "XS" else BASELINE)}
    for key, one in records.trials.items():
        if one.job.row == "sliding-window":
            records.trials[key] = replace(one, values=same[one.job.seed])
    found = words(records, size)
    assert (found["sliding-window"], found["gelu"]) == ("not testable", "same")
    assert found[COPY] == "same"


def tuned(bests: dict[str, float]) -> Records:
    """Records of rate curves alone, with the best rate at log2 of ``bests``."""
    records = Records()
    records.include({"k": "text", "text": "wikitext-2", "documents": "d", "weights": WEIGHTS}, "made")
    for name, best in bests.items():
        for rate in (0.25, 0.5, 1.0, 2.0):
            for seed in range(5000, 5004):
                values = np.full(len(WEIGHTS), 1.0 + (np.log2(rate) - best) ** 2)
                rest = {"recipe": f"{rate}", "against": "b", "machine": MACHINE, "documents": "d", "problem": None}
                job = Job(name, "wikitext-2", "XS", seed, rate, area="tuning")
                records.include(trial_line(job, values=values, **rest), "made")
    return records


def test_tuned_rate_is_taken_where_it_differs() -> None:
    records = tuned({BASELINE: 0.0, "swiglu": 0.3, "dyt": -1.0})
    assert base_rate(ATLAS, records) == 1.0
    assert [rate_of(ATLAS, records, name) for name in ("swiglu", "dyt", "gelu")] == [1.0, 0.5, 1.0]


def test_a_rate_near_the_best_one_is_kept_only_where_it_is_as_good() -> None:
    flat = Curve((0.5, 1.0, 2.0), ((1.201, 1.203), (1.2, 1.202), (1.204, 1.206)))
    assert flat.best == pytest.approx(0.7071, abs=1e-4)
    assert (flat.suits(1.0), flat.suits(0.5), flat.suits(2.0)) == (True, True, False)
    steep = Curve((0.25, 0.5, 1.0, 2.0), ((1.384, 1.384), (1.275, 1.275), (1.303, 1.303), (1.422, 1.422)))
    assert steep.best == pytest.approx(0.7071, abs=1e-4)
    assert (steep.suits(1.0), steep.suits(0.7071)) == (False, True)


@pytest.mark.parametrize("last", [1.0, 0.5])
def test_of_as_many_runs_those_with_the_tuned_rate_make_the_word(last: float) -> None:
    records = tuned({BASELINE: -1.0})
    lines = [line for line in _lines(made({"swiglu": 0.0})) if line["k"] != "trial" or line["row"] == BASELINE]
    lines = [{**line, "rate": 0.5} if line["k"] == "trial" else line for line in lines]
    for rate in (1.5 - last, last):
        effect = {0.5: -0.05, 1.0: 0.05}[rate]
        own = [line for line in _lines(made({"swiglu": effect})) if line["k"] == "trial" and line["row"] == "swiglu"]
        lines += [{**line, "rate": rate, "recipe": f"{rate}"} for line in own]
    for line in lines:
        records.include(line, f"{last}")
    assert words(records)["swiglu"] == "better"


# -- files -------------------------------------------------------------------------------------------------------------------


def test_add_is_append_only_and_names_contradictions(tmp_path: Path) -> None:
    lines = _lines(made({"swiglu": -0.05}))
    portion, folder = tmp_path / "p.jsonl", tmp_path / "records"
    portion.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"k": "tri')  # a killed process
    first = add(portion, folder)
    assert (first.new, first.known) == (38, 0)
    again = add(portion, folder)
    assert (again.new, again.known, again.file) == (0, 38, None)
    assert len(Records.load([folder]).trials) == 38
    changed = next(line for line in lines if line["k"] == "trial")
    portion.write_text(json.dumps({**changed, "values": [7] * len(WEIGHTS)}) + "\n")
    other = add(portion, folder)
    assert (other.new, len(other.contradictions)) == (1, 1)
    assert len(list(folder.glob("*.gz"))) == 2
    leaks = {"k": "variant", "row": "control-expert-choice", "size": "XS", "base": "modern", "machine": MACHINE}
    portion.write_text(json.dumps({**leaks, "parameters": 10, "step_flops": 10, "leak": ["future"]}) + "\n")
    assert [add(portion, folder).file is None for _ in range(2)] == [False, True]  # without runs, and once
    assert words(Records.load([folder]))["control-expert-choice"] == "invalid"
    portion.write_text('{"k": "trial"}\n{}\n')
    with pytest.raises(RunError):
        list(read_portion(portion))


# -- running -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Atlas:
    """A tiny text and model, a bank of two."""
    text = tmp_path / "text.txt"
    rng = np.random.default_rng(0)
    text.write_text("\n\n".join(" ".join(rng.choice(["ba", "bo", "bi", "du"], 20)) for _ in range(40)))
    changes = {
        "data.set": None,
        "data.path": str(text),
        "data.document": "block",
        "data.split.validation": 0.3,
        "model.width": 16,
        "model.layers": 2,
        "model.heads": 2,
        "model.context": 16,
        "training.batch_size": 4,
        "training.lr": 0.01,
    }
    found = Atlas.load(changes, steps=150)
    return replace(found, protocol=found.protocol.model_copy(update={"bank": 2, "looks": [2, 6]}))


def test_a_portion_writes_whole_cells_and_goes_on(small: Atlas) -> None:
    stream, records = io.StringIO(), Records()

    def portion(out: io.StringIO, minutes: float | None = None) -> Portion:
        return Portion(small, records, out, lambda logs: InlineExecutor(perform), minutes=minutes)

    wanted = [("swiglu", "wikitext-2", "XS", "modern"), ("control-expert-choice", "wikitext-2", "XS", "modern")]
    portion(stream, minutes=1e-9).run(wanted)
    begun = len(records.trials)
    assert begun == 1
    portion(stream).run(wanted)
    assert len(records.trials) == 4  # two of the bank, two of the row, none of the control
    again = portion(io.StringIO())
    again.run(wanted)
    assert again.done == 0
    text = next(iter(records.texts.values()))
    assert sum(text["weights"]) > 0
    assert all(one.values is not None and len(one.values) == len(text["weights"]) for one in records.trials.values())
    assert [one.problem for one in records.trials.values()] == [None] * 4
    found = {one.row.name: one.word for one in cells(small, records) if (one.text, one.size) == ("wikitext-2", "XS")}
    assert (found["swiglu"], found["control-expert-choice"], found["gelu"]) == ("not decided", "invalid", "open")


class Made(Portion):
    """Runs nothing: the loss of a job is a function of it."""

    machine, code = MACHINE, "first"
    ran: list[Job]

    def loss(self, job: Job) -> float:
        return 2.0 + (job.seed % 7) / 1000 + (np.log2(job.rate) - {"swiglu": 2.0}.get(job.row, 0.2)) ** 2 / 50

    def _name_machine(self) -> None:
        self.ran, self._machine = [], self.machine
        self._write({"k": "machine", "id": self.machine, "about": {"device": "made", "code": self.code}})
        self._write({"k": "text", "text": "", "documents": "d", "weights": WEIGHTS})

    def _prepare(self, jobs: object) -> None:
        return None

    def _inspected(self, job: Job, answer: dict[str, object]) -> None:
        key = {"row": job.row, "size": job.size, "base": job.base, "machine": self._machine}
        self._facts[job.row, job.size, job.base] = {"leak": None, "check": None}
        self._write({"k": "variant", **key, "parameters": 10, "step_flops": 10, "leak": None})

    def _outcome(self, job: Job, folder: Path) -> dict[str, object]:
        self.ran.append(job)
        return {"values": np.full(len(WEIGHTS), self.loss(job)), "documents": "d", "problem": None}


class Later(Made):
    machine, code = "n" * 12, "second"


class Other(Later):
    def loss(self, job: Job) -> float:
        return super().loss(job) + 0.001


def made_portion(kind: type[Made], atlas: Atlas, records: Records, minutes: float | None = None) -> Made:
    return kind(
        atlas, records, io.StringIO(), lambda logs: InlineExecutor(lambda task: {"status": "finished"}), minutes=minutes
    )


@pytest.fixture
def staged() -> Atlas:
    """One stage: two texts, two rows that are tuned and one that is not; a bank of eight."""
    texts, rows = ["wikitext-2", "boolq-passages"], ["swiglu", "gelu", "placebo-copy"]
    stage = ATLAS.protocol.stages[0].model_copy(
        update={"texts": texts, "rows": rows, "tune": [BASELINE, "swiglu", "gelu"], "families": []}
    )
    found = replace(ATLAS, protocol=ATLAS.protocol.model_copy(update={"stages": [stage], "bank": 8}))
    found.__dict__.pop("families", None)
    return found


def test_row_by_row_its_rate_curve_and_then_whole_cells(staged: Atlas) -> None:
    records = Records()
    portion = made_portion(Made, staged, records)
    portion.run()
    order = list(dict.fromkeys((job.row, job.area, job.text) for job in portion.ran))
    wiki, boolq = "wikitext-2", "boolq-passages"
    own = [[(row, "tuning", wiki), (row, "trial", wiki), (row, "trial", boolq)] for row in (BASELINE, "swiglu", "gelu")]
    assert order == [*own[0], *own[1], *own[2], ("placebo-copy", "trial", wiki), ("placebo-copy", "trial", boolq)]
    rates = {row: sorted({job.rate for job in portion.ran if job.row == row and job.area == "tuning"}) for row, *_ in order}
    assert rates["gelu"] == [0.5, 1.0, 2.0]
    assert rates["swiglu"] == [0.5, 1.0, 2.0, 4.0, 8.0]  # its best rate was at the edge
    assert {job.rate for job in portion.ran if (job.row, job.area) == ("swiglu", "trial")} == {4.0}
    assert len(portion.ran) == 12 + 16 + 20 + 12 + 12 + 12 + 12
    again = made_portion(Made, staged, records)
    again.run()
    assert again.ran == []


class Compiled(Made):
    """As on a GPU: rows are begun while others wait."""

    def _name_machine(self) -> None:
        super()._name_machine()
        self._compiles = True


def test_what_an_earlier_stage_has_is_not_run_again_beside_it(staged: Atlas) -> None:
    """On a GPU many rows are under way at once, and the records do not have their runs yet."""
    again = staged.protocol.stages[0].model_copy(update={"rows": ["layer-norm", "swiglu", "placebo-copy"], "tune": []})
    twice = replace(staged, protocol=staged.protocol.model_copy(update={"stages": [staged.protocol.stages[0], again]}))
    portion = made_portion(Compiled, twice, Records())
    portion.run()
    assert len(portion.ran) == len(set(portion.ran)) == 12 + 16 + 20 + 12 + 12 + 12 + 12 + 12
    assert {job.rate for job in portion.ran if (job.row, job.area) == ("swiglu", "trial")} == {4.0}  # as it was tuned
    assert {job.row for job in portion.ran} == {BASELINE, "swiglu", "gelu", "placebo-copy", "layer-norm"}


def test_a_run_is_begun_if_it_ends_in_time_by_its_own_steps(staged: Atlas, monkeypatch: pytest.MonkeyPatch) -> None:
    portion = made_portion(Made, staged, Records(), minutes=1.0)
    portion.usual, portion.longest, portion._ran = {"XS": 10.0}, {"XS": 30.0}, {"known"}
    monkeypatch.setattr(Portion, "seconds", property(lambda self: 60.0 - 13.0))  # of which 13 are left

    def late(row: str, program: str = "known") -> bool:
        job = Job(row, "wikitext-2", "XS", 1)
        portion._jobs["label"] = (job, _Plan(row, "XS", "modern", iter([])))
        return portion._is_late(Task("trial", "label", {}, program))

    assert not late("swiglu")
    assert late("ruler-double-steps")
    assert late("swiglu", "new")  # it has to be compiled
    assert portion._is_late(Task("inspect", "gelu/XS/modern", {}))
    portion.minutes = None
    assert not late("swiglu", "new")


def test_what_differs_outside_the_network_shares_its_compiled_code(staged: Atlas) -> None:
    portion = made_portion(Made, staged, Records())

    def program(row: str, text: str = "wikitext-2", size: str = "XS") -> str:
        return portion._program(Recipe.parse(ATLAS.recipe(Job(row, text, size, 3, 0.5))).to_dict())

    shared = {program(row) for row in (BASELINE, "ruler-double-steps", "adamw", "wsd", "placebo-copy")}
    assert shared == {program(BASELINE, "boolq-passages")}
    assert len({program("swiglu"), program("placebo-eps"), program(BASELINE, size="S")} | shared) == 4


def test_a_failed_run_is_tried_once_more(staged: Atlas) -> None:
    """And its row alone is set aside when it fails again."""
    calls: list[str] = []
    wanted = replace(staged, protocol=staged.protocol.model_copy(update={"bank": 1}))

    def perform(task: Task) -> dict[str, Any]:
        calls.append(task.kind)
        return {"status": "failed", "reason": "no memory"} if len(calls) in (2, 5, 6) else {"status": "finished"}

    portion = Made(wanted, Records(), io.StringIO(), lambda logs: InlineExecutor(perform))
    portion.run([("swiglu", "wikitext-2", "XS", "modern")], seeds=2)
    assert [(job.row, job.seed) for job in portion.ran] == [(BASELINE, 1000)]  # tried again; swiglu failed twice
    assert (portion.failed, calls) == (1, ["inspect", "trial", "trial", "inspect", "trial", "trial"])


def test_records_of_other_code_stand_where_the_baseline_has_the_same_bits(staged: Atlas) -> None:
    records = Records()
    made_portion(Made, staged, records).run()
    more = staged.protocol.stages[0].model_copy(update={"rows": ["swiglu", "layer-norm"], "tune": [BASELINE, "swiglu"]})
    later = replace(staged, protocol=staged.protocol.model_copy(update={"stages": [more]}))
    before = dict(records.trials)
    same = made_portion(Later, later, records)
    same.run()
    assert [(job.row, job.seed) for job in same.ran[:2]] == [(BASELINE, 1000)] * 2  # one run on each text
    assert {job.row for job in same.ran[2:]} == {"layer-norm"}  # no rate curve, and not swiglu, again
    found = {one.row.name: one for one in cells(later, records) if (one.text, one.size) == ("wikitext-2", "XS")}
    judged = [found[name].word for name in ("layer-norm", "swiglu", "placebo-copy")]
    assert judged == ["not testable", "same", "same"]  # layer-norm was made with the baseline's losses
    assert len(found["layer-norm"].baseline) == 8
    assert found["layer-norm"].parameters == 1.0

    records.trials = before
    different = made_portion(Other, later, records)
    different.run()
    assert sum(job.row == BASELINE for job in different.ran) == 16
    assert {job.row for job in different.ran} == {BASELINE, "swiglu", "layer-norm"}
    assert "tuning" not in {job.area for job in different.ran}  # a rate is a choice and stands


def test_a_cell_that_other_code_has_begun_is_run_whole(staged: Atlas) -> None:
    records = Records()
    made_portion(Made, staged, records).run()
    records.trials = {
        key: one
        for key, one in records.trials.items()
        if (one.job.row, one.job.text) != ("gelu", "wikitext-2") or one.job.area == "tuning" or one.job.seed < 3
    }
    later = made_portion(Later, staged, records)
    later.run()
    assert [job.seed for job in later.ran if job.row == "gelu"] == list(range(6))
    assert next(one for one in cells(staged, records) if one.row.name == "gelu" and one.text == "wikitext-2").word != "open"
