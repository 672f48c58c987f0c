"""Studies at several sizes in one folder: planned, begun, read, written; trends, worth in steps; what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refused
from tests.study.conftest import MadeUp

from glassformer.foundation.errors import ConfigError, RunError
from glassformer.pages.page import Verdicts
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import BASE
from glassformer.study.planning.planned_study import plan_studies, rate_of_sizes
from glassformer.study.planning.variant_facts import VariantBook
from glassformer.study.reporting.study_report import sizes_page
from glassformer.study.several_studies import SizeStudy
from glassformer.study.study import Study

SEEDS = 0.01 * np.random.default_rng(2).standard_normal((3, 6))
GAINS = (0.30, 0.20, 0.10)
PARAMETERS = (1_000, 10_000, 100_000)
RECIPE = {
    "tokenizer": "char",
    "data": {"path": "letters.txt"},
    "model": {"width": 12, "layers": 1, "heads": 3, "context": 7},
    "training": {"steps": 24, "batch_size": 10},
}


def made(folder: Path, gains=GAINS, **plan) -> SizeStudy:
    """``alibi`` gains so much at each size; ``none`` nothing."""
    names = ["small", "medium", "large"][: len(gains)]
    SizeStudy.begin(folder, names, rate="given for each size")
    for name, gain, noise, parameters in zip(names, gains, SEEDS, PARAMETERS):
        base = 1.5 + 0.01 * np.arange(6.0)
        losses = {"base": [*base], "alibi": [*(base - gain + noise)], "none": [*(base + noise[::-1])]}
        study = MadeUp().study(folder / name, losses, **plan)
        book = VariantBook.read(study.directory.variants_file)
        sized = {one: replace(facts, parameters=parameters) for one, facts in book.variants.items()}
        VariantBook(sized).write(study.directory.variants_file)
    return SizeStudy.load(folder)


@pytest.fixture(scope="module")
def sizes(tmp_path_factory) -> SizeStudy:
    return made(tmp_path_factory.mktemp("sizes") / "both")


def test_a_gain_that_shrinks_and_one_that_is_not_there(sizes):
    shrinks, nothing = sizes.trends
    assert (shrinks.variant, shrinks.word) == ("alibi", "shrinks")
    assert shrinks.per_decade.value == pytest.approx(-0.1, abs=0.02)
    assert shrinks.parameters == PARAMETERS
    assert nothing.word in ("not known", "no trend seen")
    assert [study.verdict("alibi").verdict for study in sizes.studies.values()] == ["better"] * 3
    assert [law.exponent.value for law in sizes.laws] == [None] * 3


def test_what_is_written_is_what_it_says(sizes):
    sizes.write()
    stored = json.loads((sizes.folder / SizeStudy.FILE).read_text())
    assert stored["names"] == ["small", "medium", "large"]
    assert stored["trends"] == sizes.to_dict()["trends"]
    assert (SizeStudy.load(sizes.folder).trends, SizeStudy.load(sizes.folder).rate) == (sizes.trends, sizes.rate)
    assert "[shrinks]" in str(sizes)
    page = sizes.report().read_text()
    assert page.count("<svg") == 1
    assert "shrinks" in page


def test_a_page_has_the_name_of_a_change_once_in_a_sentence(sizes):
    (verdicts,) = (block for block in sizes_page(sizes).sections if isinstance(block, Verdicts))
    for item, trend in zip(verdicts.items, sizes.trends):
        assert f"{item.before} {item.name} {item.sentence}" == trend.sentence


def test_other_names_are_refused(sizes):
    with refused(RunError, "other-sets", "tiny"):
        SizeStudy.begin(sizes.folder, ["tiny"], rate="")


def test_an_invalid_size_leaves_the_trend_unknown(tmp_path):
    found = made(tmp_path / "leaky", leaks={"alibi": "it reads ahead"})
    assert next(one.word for one in found.trends) == "not known"


class TestWorthInSteps:
    def test_by_the_baselines_own_curve(self, made_up, tmp_path):
        base = 1.5 + 0.01 * np.arange(6.0)
        study = made_up.study(tmp_path / "s", {"base": [*base], "alibi": [*(base - 0.1 + SEEDS[0])]})
        (found,) = study.worth
        per_doubling = 1.9 - 1.2  # the curve that MadeUp writes, at steps 12 and 24
        gain = -study.verdict("alibi").difference.value
        assert found.more_steps.value == pytest.approx(2 ** (gain / per_doubling) - 1)
        assert (found.whole_runs, study.to_dict()["worth"][0]["variant"]) == (False, "alibi")

    def test_by_changes_of_the_steps_alone(self, made_up, tmp_path):
        base = 1.5 + 0.01 * np.arange(6.0)
        losses = {"base": [*base], "alibi": [*(base - 0.1 + SEEDS[0])], "longer": [*(base - 0.2 + SEEDS[1])]}
        changes = [{"name": "alibi", "set": {"model.positions": "alibi"}}, {"name": "longer", "set": {"training.steps": 48}}]
        study = made_up.study(tmp_path / "s", losses, changes=changes, set={"training.lr": 0.2})
        (found,) = study.worth  # longer is the ruler, whatever else the plan sets
        assert found.whole_runs
        assert study.ruler.steps == (24, 48)
        assert found.more_steps.value == pytest.approx(2**0.5 - 1, abs=0.1)


class TestPlans:
    def plan(self, **more):
        sizes = {"small": {"model.width": 12, "training.lr": 0.01}, "large": {"model.width": 24, "training.lr": 0.005}}
        changes = [{"name": "alibi", "set": {"model.positions": "alibi"}}]
        return {"base": RECIPE, "changes": changes, "seeds": 6, "sizes": sizes, **more}

    def test_a_study_for_each_size(self, tmp_path):
        planned = plan_studies(self.plan(), out=tmp_path / "s")
        assert [(one.size, one.directory.root.name) for one in planned] == [("small", "small"), ("large", "large")]
        assert [one.plan.set["model.width"] for one in planned] == [12, 24]
        assert rate_of_sizes(planned) == "given for each size: small 0.01, large 0.005"

    def test_on_each_base(self, tmp_path):
        base = tmp_path / "other.yaml"
        base.write_text(json.dumps({**RECIPE, "data": {"path": "others.txt"}}))
        file = tmp_path / "plan.yaml"
        values = self.plan()
        (tmp_path / "one.yaml").write_text(json.dumps(RECIPE))
        file.write_text(
            json.dumps({**{key: value for key, value in values.items() if key != "base"}, "bases": ["one.yaml", "other.yaml"]})
        )
        planned = plan_studies(file, out=tmp_path / "s")
        places = [str(one.directory.root.relative_to(tmp_path / "s")) for one in planned]
        assert [place.split("/")[1] for place in places] == ["small", "large"] * 2
        assert len({place.split("/")[0] for place in places}) == 2

    @pytest.mark.parametrize(
        ("sizes", "more", "reason"),
        [
            ({"small": {"model.width": 12}}, {}, "sizes-too-few"),
            ({"small": {"model.width": 12}, "Large one": {"model.width": 24}}, {}, "bad-size-name"),
        ],
    )
    def test_what_is_refused(self, tmp_path, sizes, more, reason):
        with refused(ConfigError, reason):
            plan_studies(self.plan(sizes=sizes, **more), out=tmp_path / "s")

    def test_one_rate_for_all_sizes_is_refused_unless_tuned_or_transferred(self, tmp_path):
        widths = {"small": {"model.width": 12}, "large": {"model.width": 24}}
        with refused(ConfigError, "sizes-without-rate"):
            rate_of_sizes(plan_studies(self.plan(sizes=widths), out=tmp_path / "a"))
        tuned = plan_studies(self.plan(sizes=widths, tune={"grid": {"training.lr": [0.01, 0.02]}}), out=tmp_path / "b")
        assert rate_of_sizes(tuned).startswith("tuned")
        moved = plan_studies(self.plan(sizes=widths, set={"model.init": {"kind": "mup", "base_width": 12}}), out=tmp_path / "c")
        assert rate_of_sizes(moved) == "transferred by muP from width 12"


def test_seeds_that_differ_by_size_use_those_all_have(sizes, tmp_path):
    found = made(tmp_path / "few")
    large = StudyDirectory(found.folder / "large")
    trial = next(trial for trial in large.plan().trials() if trial.seed == 5 and trial.variant == BASE)
    (large.trial(trial) / "state.json").unlink()
    trend = SizeStudy.load(found.folder).trends[0]
    assert (trend.word, trend.per_decade.value) == ("not known", None)  # five pairs are left at one size
    assert isinstance(Study.load(found.folder / "large"), Study)


def test_every_row_has_the_conditions_of_its_word(tmp_path):
    study = made(tmp_path)
    for one in study.studies.values():
        facts = one.book.variants
        more = {**facts, "alibi": replace(facts["alibi"], step_flops=3 * facts[BASE].step_flops)}
        VariantBook(more, one.book.plugins).write(one.directory.variants_file)
    words = {row[3] for row in SizeStudy.load(tmp_path).rows() if row[0] == "alibi"}
    assert words == {"better, with 3 times the FLOPs"}
