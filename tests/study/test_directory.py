"""The plan on disk: written first, kept to, refused when it or its recipes change; additions are exploratory."""

from __future__ import annotations

import pytest
from tests.refusals import refused

from glassformer.foundation.config import override
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.yaml_text import dump_yaml, parse_yaml
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import StudyPlan

DEFAULTS = {"model": {"positions": "learned", "width": 48}, "seed": 0}


def resolve(changes):
    return override(DEFAULTS, changes)


ALIBI, WIDE = {"name": "alibi", "set": {"model.positions": "alibi"}}, {"name": "wide", "set": {"model.width": 64}}


def plan(*changes, **more) -> StudyPlan:
    return StudyPlan.parse({"base": "speeches-lm", "changes": list(changes or (ALIBI,)), **more})


@pytest.fixture
def study(tmp_path) -> StudyDirectory:
    return StudyDirectory(tmp_path / "study")


def test_the_plan_is_written_before_anything_else_and_read_back(study):
    assert not study.exists()
    given = plan(ALIBI, WIDE, looks=[6, 8])
    assert study.begin(given, resolve) == (given, [])
    assert study.exists()
    assert study.plan() == given
    document = parse_yaml(study.plan_file.read_text())
    assert document["schema"] == 1
    assert list(document["recipes"]) == ["base", "alibi", "wide"]
    assert study.trial(given.trials()[1]) == study.root / "trials" / "alibi" / "seed-0"


def test_started_again_with_the_same_plan_it_goes_on(study):
    study.begin(plan(), resolve)
    before = study.plan_file.read_bytes()
    assert study.begin(plan(about="said in other words"), resolve) == (plan(), [])
    assert study.begin(plan().model_copy(update={"base": "./speeches-lm.yaml"}), resolve)[0] == plan()
    assert study.plan_file.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"margin": 0.02}, "margin was None"),
        ({"seeds": 12}, "seeds was None"),
        ({"metric": "accuracy"}, "metric was None"),
        ({"first_seed": 8}, "first_seed was 0"),
        ({"set": {"model.width": 9}}, "set"),
    ],
)
def test_a_changed_setting_is_refused(study, settings, named):
    study.begin(plan(), resolve)
    with refused(ConfigError, "plan-setting-changed", named):
        study.begin(plan(**settings), resolve)


def test_a_planned_change_can_neither_leave_nor_become_another(study):
    study.begin(plan(ALIBI, WIDE), resolve)
    with refused(ConfigError, "planned-change-missing", "wide"):
        study.begin(plan(ALIBI), resolve)
    other = {"name": "wide", "set": {"model.width": 96}}
    with refused(ConfigError, "change-redefined", "wide", "64", "96"):
        study.begin(plan(ALIBI, other), resolve)


def test_what_is_added_later_is_exploratory_and_stays_so(study):
    study.begin(plan(ALIBI), resolve)
    longer, notes = study.begin(plan(ALIBI, WIDE), resolve)
    assert notes == ["wide was not in the plan: it is shown as exploratory."]
    assert [change.name for change in longer.planned] == ["alibi"]
    assert longer.variants == ["base", "alibi", "wide"]
    assert study.plan() == longer
    assert study.begin(plan(ALIBI, WIDE), resolve) == (longer, [])
    assert study.begin(plan(ALIBI), resolve) == (longer, [])  # the addition is not forgotten


def test_a_plan_file_edited_by_hand_is_refused(study):
    study.begin(plan(), resolve)
    study.plan_file.write_text(study.plan_file.read_text().replace("margin: null", "margin: 0.001"))
    for use in (study.plan, lambda: study.begin(plan(), resolve)):
        with refused(ConfigError, "plan-edited"):
            use()


def test_a_recipe_that_means_something_else_is_refused(study):
    study.begin(plan(ALIBI, WIDE), resolve)
    with refused(ConfigError, "recipe-changed", "'base'"):
        study.begin(plan(ALIBI, WIDE), lambda changes: override({"model": {"positions": "learned", "width": 49}}, changes))


def test_one_process_at_a_time(study):
    with study.alone(), refused(RunError, "study-in-use"), study.alone():
        raise AssertionError
    with study.alone():
        pass


def test_a_study_that_is_refused_leaves_no_folder_not_even_the_one_around_it(tmp_path):
    with pytest.raises(ConfigError), StudyDirectory(tmp_path / "studies" / "one").alone():
        raise ConfigError("no.")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "studies").mkdir()
    with StudyDirectory(tmp_path / "studies" / "one").alone():
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "studies"]  # it was there before


def test_a_plan_without_trials_can_be_taken_back(study):
    study.begin(plan(), resolve)
    study.forget_beginning()
    assert not study.exists()
    study.begin(plan(), resolve)
    study.trial(plan().trials()[0]).mkdir(parents=True)
    study.forget_beginning()
    assert study.exists()


def test_the_same_plan_is_recognised(study):
    assert not study.continues(plan(), resolve)
    study.begin(plan(ALIBI), resolve)
    assert study.continues(plan(ALIBI), resolve)
    assert not study.continues(plan(WIDE), resolve)
    assert not study.continues(plan(ALIBI, margin=0.5), resolve)
    assert not study.continues(plan(ALIBI), lambda changes: override({"model": {"width": 49}}, changes))
    study.begin(plan(ALIBI, WIDE), resolve)  # something exploratory was added on the way
    assert study.continues(plan(ALIBI), resolve)


def test_what_is_damaged_is_set_aside_under_names_of_its_own(study):
    folder = study.trial(plan().trials()[0])
    for number, name in enumerate(("trials-base-seed-0", "trials-base-seed-0-2", "trials-base-seed-0-3")):
        folder.mkdir(parents=True)
        (folder / "file").write_text(str(number))
        assert study.set_aside(folder) == study.root / "damaged" / name
        assert (study.root / "damaged" / name / "file").read_text() == str(number)
        assert not folder.exists()


def test_a_larger_budget_is_no_other_plan(study):
    study.begin(plan(budget_hours=1.0), resolve)
    assert study.begin(plan(budget_hours=5.0), resolve)[0].budget_hours == 5.0
    assert study.plan().budget_hours == 5.0


def test_tuning_has_a_place_of_its_own(study):
    tuned = plan(tune={"grid": {"model.width": [3, 4]}, "seeds": 1})
    place = study.trial(tuned.tuning_trials()[1])
    assert place == study.root / "tuning" / "base" / "point-1" / "seed-1000000"
    other = {"name": "alibi", "set": {"model.positions": "alibi"}, "tune": {"model.width": [3, 5]}}
    study.begin(tuned, resolve)
    with refused(ConfigError, "change-redefined", "alibi"):
        study.begin(plan(other, tune={"grid": {"model.width": [3, 4]}, "seeds": 1}), resolve)


def test_folders_that_are_no_study(study, tmp_path):
    with refused(RunError, "not-a-study"):
        study.plan()
    study.root.mkdir()
    study.plan_file.write_text(dump_yaml(plan().to_dict()))
    with refused(RunError, "not-a-begun-plan"):
        study.plan()
    study.plan_file.write_bytes(b"\xff\xfe")
    with refused(RunError, "not-utf-8"):
        study.plan()


def test_another_schema_is_refused(study):
    study.begin(plan(), resolve)
    study.plan_file.write_text(study.plan_file.read_text().replace("schema: 1", "schema: 7"))
    with refused(RunError, "other-schema", "7"):
        study.plan()
