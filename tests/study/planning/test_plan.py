"""Plans: from flags and from YAML, what is left out, what is refused, and the trials they become."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.yaml_text import parse_yaml
from glassformer.recipe import load_recipe
from glassformer.study.planning.plan import (
    BASE,
    FIRST_TUNING_SEED,
    LONGEST_FOLDER,
    StudyPlan,
    folder_name,
    parse_vary,
    recipe_fingerprint,
)
from glassformer.study.planning.planned_study import changes_from, without_repeats

SMALL = {"data": {"set": "docstrings"}, "model": {"width": 48}, "training": {"steps": 4}}


def resolve(changes):
    return load_recipe(SMALL, changes).to_dict()


def plan(**more) -> StudyPlan:
    change = {"name": "alibi", "set": {"model.positions": "alibi"}}
    return StudyPlan.parse({"base": "speeches-lm", "changes": [change], **more})


class TestTuning:
    GRID = {"training.lr": [0.1, 0.2], "model.width": [16, 32, 64]}  # noqa: RUF012

    def test_every_variant_tries_every_point_on_seeds_of_its_own(self):
        tuned = plan(tune={"grid": self.GRID, "seeds": 2})
        trials = tuned.tuning_trials({"alibi": {"model.merge": "shift"}})
        assert len(trials) == 2 * 2 * 6
        assert {trial.seed for trial in trials} & set(tuned.seed_numbers) == set()
        first = trials[6]
        assert (first.variant, first.point, first.area) == ("alibi", 0, "tuning")
        assert first.set == {
            "model.positions": "alibi", "model.merge": "shift", "training.lr": 0.1, "model.width": 16, "seed": 1_000_000,
        }  # fmt: skip
        assert first.label == "alibi, seed 1000000 (setting 1 of its grid)"
        assert len({trial.folder for trial in trials}) == len(trials)

    def test_a_change_may_have_another_range_but_not_more_tries(self):
        change = {"name": "sgd", "set": {"training.optimizer": "sgd"}, "tune": {"training.lr": [1.0, 2.0]}}
        tuned = plan(changes=[change], tune={"grid": {"training.lr": [0.1, 0.2]}})
        assert tuned.tuning_points("sgd") == [{"training.lr": 1.0}, {"training.lr": 2.0}]
        assert tuned.tuning_points(BASE) == [{"training.lr": 0.1}, {"training.lr": 0.2}]
        with refused(ConfigError, "unequal-tuning", "'sgd' tries 2", "baseline 3"):
            plan(changes=[change], tune={"grid": {"training.lr": [0.1, 0.2, 0.3]}})

    @pytest.mark.parametrize(
        ("settings", "reason", "named"),
        [
            ({"tune": {"grid": {"seed": [1, 2]}}}, "seed-tuned", "tune.grid"),
            ({"tune": {"grid": {"training.lr": [1.0]}}}, "one-tuning-point", "tune.grid"),
            ({"tune": {"grid": {"model.positions": ["a", "b"]}}}, "key-set-and-tuned", "model.positions"),
            ({"tune": {"grid": {"model.width": [1, 2]}}, "match": "flops"}, "match-with-tuned-model", "match=flops"),
            ({"changes": [{"name": "x", "set": {"a": 1}, "tune": {"b": [1, 2]}}]}, "tune-without-plan", "'x'"),
        ],
    )
    def test_what_cannot_be_tuned(self, settings, reason, named):
        with refused(ConfigError, reason, named):
            plan(**settings)

    def test_without_tuning_there_is_nothing_to_try(self):
        assert plan().tuning_trials() == []
        assert plan().tuning_points(BASE) == []

    def test_what_was_adapted_goes_into_the_trials(self):
        base, alibi, *_ = plan().trials(1, {"alibi": {"model.width": 99}})
        assert (base.set, alibi.set["model.width"]) == ({"seed": 0}, 99)


class TestVary:
    def test_values_are_yaml(self):
        assert parse_vary(["model.width=64,128", "model.positions=sinusoidal, alibi"]) == {
            "model.width": [64, 128],
            "model.positions": ["sinusoidal", "alibi"],
        }
        assert parse_vary(["model.mixer={kind: dot, bias: false},none"]) == {
            "model.mixer": [{"kind": "dot", "bias": False}, "none"]
        }
        listed = parse_vary(["model.mixer=[dot, none],average", "model.norm=[rms, {kind: layer, eps: 0.1}]"])
        assert listed == {"model.mixer": [["dot", "none"], "average"], "model.norm": [["rms", {"kind": "layer", "eps": 0.1}]]}
        assert parse_vary(["training.lr=1e-3", "training.lr=5e-4"]) == {"training.lr": [0.001, 0.0005]}

    @pytest.mark.parametrize("text", ["model.width", "=3", "model.width=", "model.width= "])
    def test_what_is_no_assignment_is_refused(self, text):
        with refused(ConfigError, "not-an-assignment"):
            parse_vary([text])

    def test_broken_yaml_is_refused(self):
        with refused(ConfigError, "invalid-yaml"):
            parse_vary(["model.mixer={kind: dot"])


def plan_from_flags(base: Any, vary: Any, resolve: Any, *, cross: bool = False, **more: Any) -> tuple[StudyPlan, list[str]]:
    return without_repeats(StudyPlan.parse({"base": base, "changes": changes_from(vary, cross=cross), **more}), resolve)


class TestFromFlags:
    def test_each_value_is_one_change(self):
        made, notes = plan_from_flags("speeches-lm", ["model.positions=sinusoidal,alibi", "model.width=64"], resolve, seeds=6)
        assert [(change.name, change.set) for change in made.changes] == [
            ("model.positions=sinusoidal", {"model.positions": "sinusoidal"}),
            ("model.positions=alibi", {"model.positions": "alibi"}),
            ("model.width=64", {"model.width": 64}),
        ]
        assert notes == []
        assert made.all_looks == (6,)

    def test_cross_makes_the_product(self):
        made, notes = plan_from_flags("r", ["model.positions=learned,alibi", "model.width=48,64"], resolve, cross=True)
        assert [change.name for change in made.changes] == [
            "model.positions=learned model.width=64",
            "model.positions=alibi model.width=48",
            "model.positions=alibi model.width=64",
        ]
        assert notes == ["model.positions=learned model.width=48 is left out: it is the same as the baseline."]

    def test_the_baselines_own_value_is_left_out_with_a_note(self):
        made, notes = plan_from_flags({"model": {}}, {"model.positions": ["learned", "alibi"]}, resolve)
        assert [change.name for change in made.changes] == ["model.positions=alibi"]
        assert notes == ["model.positions=learned is left out: it is the same as the baseline."]

    def test_a_list_is_one_value(self) -> None:
        made, notes = plan_from_flags({"model": {"layers": 4}}, ["model.mixer=[dot, dot],[dot, none]"], resolve)
        assert [(change.name, change.set) for change in made.changes] == [
            ("model.mixer=[dot, none]", {"model.mixer": ["dot", "none"]})
        ]
        assert notes == ["model.mixer=[dot, dot] is left out: it is the same as the baseline."]

    def test_a_value_given_twice_is_one_change(self):
        made, _ = plan_from_flags("r", ["model.width=64,64"], resolve)
        assert [change.name for change in made.changes] == ["model.width=64"]

    def test_no_change_left(self):
        with refused(ConfigError, "no-change-left", "model.positions=learned"):
            plan_from_flags("r", ["model.positions=learned"], resolve)

    def test_a_key_that_does_not_exist(self):
        with refused(ConfigError, "unknown-key", "'model.widht'"):
            plan_from_flags("r", ["model.widht=64"], resolve)

    def test_the_seed_cannot_be_varied(self):
        with refused(ConfigError, "seed-varied"):
            plan_from_flags("r", ["seed=1,2"], resolve)

    def test_a_huge_product_is_refused_at_once(self):
        many = [f"model.width={','.join(map(str, range(1, 2000)))}", f"training.lr={','.join(map(str, range(1, 2000)))}"]
        with refused(ConfigError, "too-many-changes", "200"):
            plan_from_flags("r", many, resolve, cross=True)

    def test_names_of_values(self):
        positions = [None, {"kind": "sinusoidal", "base": 20.0}]
        values = {"model.positions": positions, "model.bias": [False], "data.vocabulary": [["a", "b"]]}
        made, _ = plan_from_flags("r", values, resolve)
        assert [change.name for change in made.changes] == [
            "model.positions=null",
            "model.positions={kind: sinusoidal, base: 20.0}",
            "model.bias=false",
            "data.vocabulary=[a, b]",
        ]


def test_two_names_for_one_recipe_are_one_change():
    changes = [{"name": "wide", "set": {"model.width": 64}}, {"name": "big", "set": {"model.width": 64, "about": "words"}}]
    made, notes = without_repeats(plan(changes=changes), resolve)
    assert [change.name for change in made.changes] == ["wide"]
    assert notes == ["big is left out: it is the same as wide."]


def test_settings_of_every_variant_belong_to_the_baseline_too():
    made, notes = without_repeats(
        plan(set={"model.positions": "alibi"}, changes=[{"name": "l", "set": {"model.positions": "learned"}}]), resolve
    )
    assert notes == []
    assert made.settings(BASE) == {"model.positions": "alibi"}
    assert made.settings("l") == {"model.positions": "learned"}


def test_what_does_nothing_is_not_compared():
    assert (
        recipe_fingerprint({**SMALL, "about": "x", "seed": 3})
        == recipe_fingerprint({**SMALL, "result": "y", "seed": 4})
        != recipe_fingerprint({**SMALL, "model": {"width": 64}})
    )


class TestSeedsAndLooks:
    def test_seeds_alone_are_one_look(self):
        assert plan().all_looks == (8,)
        assert plan(seeds=3).all_looks == (3,)

    def test_looks_and_max_seeds(self):
        assert plan(looks=[6, 8, 12, 16]).all_looks == (6, 8, 12, 16)
        assert plan(max_seeds=16).all_looks == (6, 8, 12, 16)
        assert plan(max_seeds=14).all_looks == (6, 8, 12, 14)
        assert plan(seeds=8, max_seeds=12).all_looks == (8, 12)
        assert plan(seeds=8, max_seeds=8).all_looks == (8,)
        assert plan(max_seeds=6).all_looks == (6,)
        assert plan(looks=[6, 16], max_seeds=16).rules().looks == (6, 16)

    @pytest.mark.parametrize(
        ("settings", "reason", "named"),
        [
            ({"seeds": 1}, "one-seed", "seeds=1"),
            ({"seeds": 0}, "one-seed", "seeds=0"),
            ({"looks": [6, 6]}, "looks-not-rising", "seeds"),
            ({"looks": [4, 8]}, "first-look-too-early", "4 seeds"),
            ({"looks": [6, 8], "max_seeds": 12}, "max-seeds-not-last-look", "max_seeds=12"),
            ({"looks": [6, 8], "seeds": 7}, "seeds-not-first-look", "seeds=7"),
            ({"seeds": 9, "max_seeds": 8}, "max-seeds-not-last-look", "max_seeds=8"),
            ({"margin": 0.0}, "bad-value", "margin=0.0"),
            ({"alpha": 0.9}, "bad-value", "alpha=0.9"),
            ({"changes": []}, "no-changes", "changes"),
            ({"changes": [{"name": "a", "set": {}}]}, "bad-value", "changes.0.set="),
            ({"changes": [{"name": "a", "sett": {"model.width": 3}}]}, "missing-key", "'changes.0.sett'"),
            ({"changes": ["alibi"]}, "not-a-mapping", "changes.0"),
            ({"changes": "alibi"}, "bad-value", "changes='alibi'"),
            ({"changes": [{"name": "base", "set": {"model.width": 3}}]}, "change-called-base", "'base'"),
            (
                {"changes": [{"name": "a", "set": {"model.width": w}} for w in (3, 4)]},
                "name-used-twice",
                "'a'",
            ),
            (
                {"design": "bank"},
                "bank-too-small",
                "bank=[]",
            ),
            ({"marginn": 0.1}, "unknown-key", "'margin'"),
        ],
    )
    def test_what_cannot_be_judged_is_refused(self, settings, reason, named):
        with refused(ConfigError, reason, named):
            plan(**settings)

    def test_an_unknown_metric_gets_the_nearest(self):
        with refused(UnknownName, "unknown-name", "'loss'"):
            plan(metric="los").judged  # noqa: B018

    def test_rules_are_the_plans(self):
        rules = plan(metric="accuracy", margin=0.02, alpha=0.01, planned_effect=0.05, seeds=7).rules()
        assert (rules.metric.name, rules.margin, rules.alpha, rules.planned_effect, rules.looks) == (
            "accuracy",
            0.02,
            0.01,
            0.05,
            (7,),
        )


class TestTrials:
    changes = ({"name": "alibi", "set": {"model.positions": "alibi"}}, {"name": "wide one", "set": {"model.width": 64}})

    def test_every_variant_with_every_seed_whole_pairs_first(self):
        made = plan(changes=list(self.changes), seeds=3, first_seed=20, set={"training.lr": 0.01})
        trials = made.trials()
        assert [(trial.variant, trial.seed) for trial in trials] == [
            (variant, seed) for seed in (20, 21, 22) for variant in ("base", "alibi", "wide one")
        ]
        assert trials[0].set == {"training.lr": 0.01, "seed": 20}
        assert trials[4].set == {"training.lr": 0.01, "model.positions": "alibi", "seed": 21}
        assert len(made.trials(2)) == 6
        assert made.trials(2) == trials[:6]

    def test_folders_are_stable_safe_and_different(self):
        names = [
            "base",
            "model.positions=alibi",
            "wide one",
            "wide/one",
            "../../etc",
            "ALIBI",
            "alibi",
            "x" * 300,
            "é",
            "...",
            "con.",
            "-",
        ]
        folders = {name: folder_name(name) for name in names}
        assert folders["base"] == "base"
        assert folders["model.positions=alibi"] == "model.positions=alibi"
        assert len({folder.lower() for folder in folders.values()}) == len(names)
        assert all(re.fullmatch(r"[A-Za-z0-9_=][A-Za-z0-9._=-]*", folder) for folder in folders.values())
        assert all(len(folder) <= LONGEST_FOLDER + 9 for folder in folders.values())
        assert plan(changes=list(self.changes)).trials()[1].folder == "alibi/seed-0"

    def test_exploratory_changes_are_tried_and_not_planned(self):
        made = plan(changes=[*self.changes, {"name": "later", "set": {"model.width": 9}, "exploratory": True}])
        assert [change.name for change in made.planned] == ["alibi", "wide one"]
        assert made.variants == ["base", "alibi", "wide one", "later"]


def test_a_plan_in_yaml():
    text = """
    about: does it matter where tokens stand?
    base: speeches-lm
    set: {training.steps: 300}
    changes:
      - {name: sinusoidal, set: {model.positions: sinusoidal}}
      - {name: alibi, set: {model.positions: {kind: alibi}}}
    looks: [6, 8, 12, 16]
    margin: 0.005
    """
    made = StudyPlan.parse(parse_yaml(text))
    assert made.variants == ["base", "sinusoidal", "alibi"]
    assert StudyPlan.parse(parse_yaml(text)).to_dict() == made.to_dict()
    assert StudyPlan.parse(made.to_dict()) == made


def test_the_power_sentence_tells_what_can_be_seen():
    assert (
        plan(seeds=8)
        .power_sentence()
        .startswith("Power: with 8 seeds and 1 change, 80 % of studies find a true difference that is 1.2 times")
    )
    assert (
        plan(max_seeds=16, changes=list(TestTrials.changes))
        .power_sentence()
        .startswith("Power: with up to 16 seeds and 2 changes, 75 % of studies")
    )
    assert plan(seeds=3).power_sentence().startswith("With 3 seeds nothing will be decided")


class TestTuningSeeds:
    tune: ClassVar = {"grid": {"training.lr": [0.1, 0.2]}, "seeds": 3}

    def seeds(self, made: StudyPlan) -> set[int]:
        return {trial.seed for trial in made.tuning_trials()}

    def test_a_study_on_fresh_seeds_tunes_on_fresh_seeds(self):
        first, second = (plan(seeds=6, first_seed=seed, tune=self.tune) for seed in (0, 1))
        assert self.seeds(first) == {FIRST_TUNING_SEED + at for at in range(3)}
        assert len(self.seeds(second)) == 3
        assert not self.seeds(first) & self.seeds(second)
        assert StudyPlan.parse(second.to_dict()) == second


def test_settings_are_chosen_on_validation_whatever_decides():
    tune = {"grid": {"training.lr": [0.1, 0.2]}, "seeds": 2}
    plan = StudyPlan.parse({"base": "x", "tune": tune, "split": "test:dev"})
    assert {plan.split_of(trial) for trial in plan.tuning_trials()} == {"validation"}
    assert {plan.split_of(trial) for trial in plan.trials()} == {"test:dev"}
