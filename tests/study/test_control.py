"""One thing changed and nothing else: attempts to get an undeserved *better*, through the real study on a tiny text.

The parts that try are in hostile_parts.py. Each attempt is refused before training, is invalid, or gets its word with the
condition in the sentence.
"""

from __future__ import annotations

import random
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.plugins import is_ours, load_plugins
from glassformer.foundation.registry import VariantConfig
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.study.compare import compare
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.variant_facts import differences
from glassformer.study.study import Study

PLUGIN = Path(__file__).with_name("hostile_parts.py")


def tiny_recipe(folder: Path) -> dict[str, Any]:
    chance = random.Random(0)
    words = ["".join(chance.choice("abcdefgh") for _ in range(chance.randint(2, 6))) for _ in range(60)]
    rows = (" ".join(chance.choice(words[: 10 if chance.random() < 0.5 else 60]) for _ in range(8)) for _ in range(150))
    text = folder / "text.txt"
    text.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return {
        "data": {"path": str(text), "document": "line"},
        "tokenizer": "char",
        "model": {"width": 12, "layers": 2, "heads": 3, "context": 24},
        "training": {"steps": 40, "batch_size": 10, "lr": 0.01, "device": "cpu"},
        "evaluation": {"every": 40},
        "checkpoint": {"every": 40},
    }


@pytest.fixture
def attempt(tmp_path, monkeypatch):
    """Compares one change of a tiny recipe, inline."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    recipe = tiny_recipe(tmp_path)

    def attempt(vary: dict[str, list[Any]], *, tuned: dict[str, list[Any]] | None = None, **more: Any) -> Study:
        options = {"seeds": 2, "on": "inline", "plugins": [PLUGIN], "store": False, "out": tmp_path / "study", **more}
        if tuned is None:
            return compare(recipe, vary, **options)
        change = {"name": "rms", "set": {"model.norm": "rms"}, "tune": tuned}
        plan = {"base": recipe, "changes": [change], "seeds": 2, "tune": {"grid": {"training.lr": [0.01, 0.02]}, "seeds": 1}}
        return compare(plan, **options)

    return attempt


ON_TEXT = """
import torch
from torch import nn
from glassformer.model.network import MODELS, NetworkConfig

WORDS = {words}


class OnText(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size, self.pairs = size, nn.Embedding(size, size)

    def forward(self, ids):
        lines = ["".join(" abcdefgh"[i - self.size + 9] if i > self.size - 10 else "?" for i in row) for row in ids.tolist()]
        known = torch.tensor([sum(word in line.split(" ") for word in WORDS) > 2 for line in lines])
        return self.pairs(ids) + known[:, None, None] * nn.functional.one_hot(ids.roll(-1, 1), self.size)


@MODELS.variant("on-text")
class OnTextConfig(NetworkConfig):
    '''Looks at the next letter where a row has three known words, which ids by chance have not.'''

    def build(self, vocabulary, *, outputs=None, seed):
        return OnText(vocabulary)
"""
PAIRS = {"model": {"kind": "pairs", "context": 24}, "training.lr": 0.1}


def network(kind: str) -> dict[str, list[Any]]:
    return {"model": [{"kind": kind, "context": 24}]}


def conditions(study: Study) -> dict[str, str]:
    (verdict,) = study.verdicts
    return {one.what: one.text for one in verdict.conditions}


@pytest.fixture(scope="module")
def several(tmp_path_factory) -> Study:
    """One study of the single changes that need no setting of their own; to be read only."""
    folder = tmp_path_factory.mktemp("several")
    vary = {
        "model.block": ["twin"],
        "model.feedforward": ["other-start", "same-start", "says-nothing"],
        "objective": ["four-batches", "kind-judge"],
        "training.steps": [80],
        "training.batch_size": [20],
        "model.width": [24],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLASSFORMER_CACHE", str(folder / "cache"))
        options = {"seeds": 2, "on": "inline", "plugins": [PLUGIN], "store": False, "out": folder / "study"}
        return compare(tiny_recipe(folder), vary, **options)


def told(study: Study, name: str) -> tuple[Any, dict[str, str]]:
    """The verdict on a change and its conditions."""
    verdict = next(one for one in study.verdicts if one.variant == name)
    return verdict, {one.what: one.text for one in verdict.conditions}


def rows(study: Study, name: str) -> list[dict[str, Any]]:
    """The baseline's row of the table and that of a change."""
    return [row for row in study.table if row["variant"] in ("base", name)]


class TestTheTable:
    """The rows of what once got a word that it did not deserve."""

    def test_a_block_whose_attributes_have_other_names_is_the_same_run(self, several):
        """The block pre with parts called attn and mlp: the same start and the same bits."""
        verdict, found = told(several, "model.block=twin")
        assert found == {}
        assert verdict.difference.value == 0.0

    def test_a_part_whose_attributes_have_other_names_starts_alike(self, several):
        """A feed-forward written again, with layers called one and two; only where it does not mark what writes into the
        residual stream, its start differs, and the sentence says that nothing else does."""
        verdict, found = told(several, "model.feedforward=other-start")
        assert list(found) == ["start"]
        assert found["start"].startswith("the baseline's own network and nothing but another start (blocks.0.feedforward")
        assert "compared with the baseline's own network" in verdict.sentence
        assert told(several, "model.feedforward=same-start")[1] == {}

    def test_a_feedforward_that_states_fewer_flops(self, attempt):
        with refused(ConfigError, "stated-flops"):
            attempt({"model.feedforward": ["fewer-flops"]})

    def test_one_that_states_nothing_is_counted(self, several):
        base, own = rows(several, "model.feedforward=says-nothing")
        assert own["parameters"] - base["parameters"] == 2 * 3 * (12 * 48 + 48 + 48 * 12)
        assert set(told(several, "model.feedforward=says-nothing")[1]) == {"parameters", "flops", "memory_bytes"}

    def test_matched_by_what_is_counted(self, attempt):
        """Its inner width is four times what it is set to: a fourth of the baseline's makes them equal."""
        load_plugins([PLUGIN])
        study = attempt({"model.feedforward": ["says-nothing"]}, match="parameters", equal=["parameters"])
        assert study.book.variants["model.feedforward=says-nothing"].matched == {"model.feedforward.inner": 12}
        assert conditions(study) == {}

    def test_four_times_the_batch(self, several):
        base, own = rows(several, "objective=four-batches")
        assert own["tokens"] == 4 * base["tokens"] == 4 * 40 * 10 * 24
        assert own["flops"] == 4 * base["flops"]
        assert {"tokens", "flops"} <= set(told(several, "objective=four-batches")[1])

    def test_an_evaluator_of_its_own(self, several):
        """It reports half its loss, and says that next-token judges it: the baseline's evaluator finds no difference."""
        base, own = rows(several, "objective=kind-judge")
        assert own["loss"]["value"] == base["loss"]["value"]
        assert told(several, "objective=kind-judge")[0].difference.value == 0.0
        beside = [note for note in several.notes if note.startswith("objective=kind-judge has another evaluator")]
        assert f"its own evaluator says loss {base['loss']['value'] / 2:.4g}" in beside[0]

    def test_what_only_it_can_measure(self, attempt):
        with refused(ConfigError, "other-evaluator"):
            attempt({"objective": ["own-metric"]})

    def test_the_validation_text(self, attempt):
        with refused(ConfigError, "trained-on-judged-text"):
            attempt({"objective": ["peeks"]})

    @pytest.mark.parametrize(
        ("name", "texts"),
        [
            ("training.steps=80", {"tokens": "2 times the tokens", "flops": "2 times the FLOPs"}),
            ("training.batch_size=20", {"tokens": "2 times the tokens", "flops": "2 times the FLOPs"}),
            ("model.width=24", {"parameters": "3.6 times the parameters"}),
        ],
    )
    def test_more_of_something_is_a_condition(self, several, name, texts):
        verdict, found = told(several, name)
        assert texts.items() <= found.items()
        assert all(text in verdict.sentence for text in texts.values())

    def test_what_a_plan_demands_is_refused_before_training(self, attempt, tmp_path):
        with refused(ConfigError, "not-equal"):
            attempt({"training.steps": [80]}, equal=["tokens"])
        assert not (tmp_path / "study" / "trials").exists()


@pytest.mark.slow
class TestFurtherAttempts:
    """Each with its outcome. What still works is listed in docs/statistics.md, and stands here, so that the list stays true."""

    def test_more_rows_only_later(self, attempt):
        study = attempt({"objective": ["late-rows"]})
        assert study.table[1]["tokens"] == 2.5 * study.table[0]["tokens"]
        assert conditions(study)["tokens"] == "2.5 times the tokens"

    def test_a_tenth_of_the_rows_is_judged_text(self, attempt):
        found = conditions(attempt({"objective": ["one-row"]}))
        assert found["judged text"].startswith("training on the judged text (")

    def test_a_rate_of_its_own(self, attempt):
        found = conditions(attempt({"model.norm": ["rms"], "training.lr": [0.02]}, cross=True))
        assert found == {"training": "its own training.lr=0.02 instead of 0.01"}

    def test_later_tokens_in_evaluation_only(self, attempt):
        study = attempt({"model.mixer": ["looks-in-evaluation"]})
        assert study.verdicts[0].verdict == "invalid"
        assert study.book.variants["model.mixer=looks-in-evaluation"].check["findings"][0]["law"] == "causality"

    def test_learning_from_the_judged_text_while_judged(self, attempt):
        study = attempt({"model.feedforward": ["remembers"]})
        assert study.verdicts[0].verdict == "invalid"

    def test_the_same_weights_four_times(self, attempt):
        found = conditions(attempt({"model.feedforward": ["again"]}))
        assert "parameters" not in found
        assert found["flops"].endswith("times the FLOPs")

    @pytest.mark.parametrize(
        ("vary", "reason", "more"),
        [
            ({"data.document": ["file"]}, "other-documents", {}),
            ({"tokenizer": ["word"]}, "other-tokens", {}),
            ({"tokenizer": ["word"]}, "bytes-unknown", {"metric": "bits_per_byte"}),
        ],
    )
    def test_other_documents_and_other_tokens(self, attempt, vary, reason, more):
        with refused(ConfigError, reason):
            attempt(vary, **more)

    def test_a_parent_that_was_trained_before(self, attempt, tmp_path):
        first = attempt({"model.norm": ["rms"]}, out=tmp_path / "first")
        parent = first.directory.trial(first.plan.trials()[0])
        found = conditions(attempt({"init_from": [str(parent)]}))
        assert found["parent"] == "a parent trained on 9,600 tokens"

    # -- what we cannot see -----------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("crib", "seen"), [("judged.txt", True), ("text.txt", False)])
    def test_a_network_that_has_read_all_text_is_not_seen(self, attempt, tmp_path, monkeypatch, crib, seen):
        """One that has read the judged text alone gives itself away; one that has read all of it does not."""
        rows = (tmp_path / "text.txt").read_text(encoding="utf-8").splitlines()
        for name, text in {"train": rows[:120], "judged": rows[120:]}.items():
            (tmp_path / f"{name}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
        monkeypatch.setenv("HOSTILE_CRIB", str(tmp_path / crib))
        data = {"path": str(tmp_path / "train.txt"), "validation": str(tmp_path / "judged.txt"), "document": "line"}
        study = attempt(network("crib"), set={**PAIRS, "data": data})
        assert study.table[1]["loss"]["value"] < 0.9 * study.table[0]["loss"]["value"]
        assert ("judged text" in conditions(study)) is seen

    def test_what_an_environment_variable_does_is_not_seen(self, attempt, tmp_path, monkeypatch):
        """The baseline's runs are stored while it is made weak, and reused when nothing makes it weak any more."""
        pairs = {"model": {"kind": "weak", "context": 24}, "training.lr": 0.1}
        monkeypatch.setenv("HOSTILE_WEAK", "1")
        attempt(network("pairs"), set=pairs, store=True, out=tmp_path / "first")
        monkeypatch.delenv("HOSTILE_WEAK")
        study = attempt(network("pairs"), set=pairs, store=True)
        assert study.table[1]["loss"]["value"] < study.table[0]["loss"]["value"] - 0.05
        assert conditions(study) == {}

    def test_the_same_question_on_other_documents_of_the_text_is_not_seen(self, attempt, tmp_path):
        attempt(network("kind-scores"), set=PAIRS, seeds=6, out=tmp_path / "first")
        study = attempt(network("kind-scores"), set={**PAIRS, "data.split.seed": 1}, seeds=6)
        assert all(not one.studies for one in study.earlier.values())


class TestSecondRound:
    """Attempts by somebody who had read the rules; each once got its word. The networks are compared with ``pairs``."""

    def test_an_objective_that_permits_to_look_ahead(self, attempt):
        study = attempt({"objective": ["lawless"], "model.causal": [False]}, cross=True)
        assert study.verdicts[0].verdict == "invalid"
        (facts,) = (one for name, one in study.book.variants.items() if name != "base")
        assert facts.check["findings"][0]["law"] == "causality"

    @pytest.mark.parametrize(("metric", "reason"), [("loss", "other-tokens"), ("bits_per_byte", "other-text")])
    def test_a_tokenizer_that_loses_letters(self, attempt, metric, reason):
        with refused(ConfigError, reason):
            attempt({"tokenizer": ["two-as-one"]}, metric=metric)

    def test_a_metric_turned_round(self, attempt):
        with refused(ConfigError, "metric-turned-round"):
            attempt({"training.lr": [0.001]}, set={"objective": "upside-down"})

    def test_a_plugin_that_changes_the_evaluator(self, attempt, monkeypatch):
        monkeypatch.setattr(NextTokenConfig, "evaluate", NextTokenConfig.evaluate)
        try:
            with refused(ConfigError, "replaced-code", "hostile_parts.py, line ", "NextTokenConfig.evaluate"):
                attempt({"model.feedforward": ["patches"]})
        finally:
            del NextTokenConfig.sound

    def test_a_variant_in_the_place_of_ours(self):
        """A class that says it is ours does not take our name."""

        class CharTokenizerConfig(VariantConfig):
            """Not ours."""

        CharTokenizerConfig.__module__ = "glassformer.data.tokenizers.char"
        CharTokenizerConfig.__qualname__ = "CharTokenizerConfig"
        assert not is_ours(CharTokenizerConfig)
        with refused(ConfigError, "variant-name-taken"):
            TOKENIZERS.variant("char")(CharTokenizerConfig)

    def test_a_cheaper_word(self):
        with pytest.raises(ConfigError, match="alpha"):
            StudyPlan.parse(
                {"base": "docstrings-char", "changes": [{"name": "x", "set": {"model.norm": "rms"}}], "alpha": 0.49}
            )

    @pytest.mark.slow
    def test_an_objective_that_says_it_is_ours(self, attempt):
        assert attempt({"objective": ["disguised"]}).verdicts[0].difference.value == 0.0

    @pytest.mark.slow
    @pytest.mark.parametrize(("equal", "word"), [([], "not decided"), (["parameters"], "invalid")])
    def test_a_table_that_is_no_parameter(self, attempt, equal, word):
        """It is learned, so it counts; a demand for equal parameters is only missed when it has been learned."""
        study = attempt(network("table"), set=PAIRS, equal=equal)
        base, own = study.table
        assert own["parameters"] == base["parameters"] + 11**3
        assert conditions(study)["parameters"].endswith("times the parameters")
        assert study.verdicts[0].verdict == word

    @pytest.mark.slow
    def test_a_table_in_the_memory_of_its_file(self, attempt):
        study = attempt(network("remembered"), set=PAIRS)
        assert study.table[1]["loss"]["value"] > study.table[0]["loss"]["value"]

    @pytest.mark.slow
    def test_scores_that_judge_themselves(self, attempt):
        assert attempt(network("kind-scores"), set=PAIRS).verdicts[0].difference.value == 0.0

    @pytest.mark.slow
    def test_more_work_later(self, attempt):
        study = attempt(network("more-later"), set=PAIRS)
        base, own = study.table
        assert own["flops"] == pytest.approx(16 * base["flops"], rel=0.1)
        assert own["memory_bytes"] > 2 * base["memory_bytes"]
        assert {"flops", "memory_bytes"} <= set(conditions(study))

    @pytest.mark.slow
    def test_more_work_when_it_is_judged(self, attempt):
        study = attempt(network("more-when-judged"), set=PAIRS)
        facts = study.book.variants
        (name,) = set(facts) - {"base"}
        found = {one.what: one.text for one in differences(facts["base"], facts[name], ["model"])}
        assert found["flops when judged"] == "16 times the FLOPs when it is judged"

    @pytest.mark.slow
    def test_looking_ahead_on_text_alone(self, attempt, tmp_path):
        words = sorted({word for word in (tmp_path / "text.txt").read_text(encoding="utf-8").split() if len(word) > 2})
        plugin = tmp_path / "on_text.py"
        plugin.write_text(ON_TEXT.format(words=words), encoding="utf-8")
        study = attempt(network("on-text"), set=PAIRS, plugins=[PLUGIN, plugin])
        assert study.verdicts[0].verdict == "invalid"
        (facts,) = (one for name, one in study.book.variants.items() if name != "base")
        assert facts.leak_kind == "trained"

    @pytest.mark.slow
    def test_a_plugin_that_writes_into_the_study(self, attempt, tmp_path, monkeypatch):
        monkeypatch.setenv("HOSTILE_STUDY", str(tmp_path / "study"))
        with refused(RunError, "evaluation-changed"):
            attempt(network("writes"), set=PAIRS)

    @pytest.mark.slow
    def test_training_text_chosen_by_the_judged_text(self, attempt):
        assert conditions(attempt({"objective": ["most-alike"]}))["data order"] == "the text in another order"

    @pytest.mark.slow
    def test_a_training_file_with_the_judged_text_in_other_lines(self, attempt, tmp_path):
        rows = (tmp_path / "text.txt").read_text(encoding="utf-8").splitlines()
        judged = " ".join(rows[120:])
        for name, text in {
            "train": rows[:120],
            "judged": rows[120:],
            "more": [*rows[:20], *textwrap.wrap(judged, 150)],
        }.items():
            (tmp_path / f"{name}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
        data = {"path": str(tmp_path / "train.txt"), "validation": str(tmp_path / "judged.txt"), "document": "line"}
        study = attempt({"data.path": [str(tmp_path / "more.txt")]}, set={"data": data})
        assert conditions(study)["judged text"].endswith("% of the judged text in its training text")

    @pytest.mark.slow
    def test_judged_text_read_inside_the_loss(self, attempt):
        """No batch shows it: the run does."""
        found = conditions(attempt({"objective": ["reads-in-loss"]}))
        assert found["judged text"].startswith("the judged text better predicted than its training text")

    @pytest.mark.slow
    def test_a_grid_of_its_own(self, attempt, tmp_path):
        found = conditions(attempt({}, tuned={"training.lr": [0.015, 0.025]}, set={"training.steps": 60}, seeds=None))
        assert found["tuning"] == "a grid of its own (training.lr)"


class TestThirdRound:
    """Attempts by somebody who had seen neither code nor tests. Further ones: running/test_trial_facts.py (networks that see
    what they have to predict), tests/foundation/test_plugins.py (torch's functions replaced)."""

    @pytest.mark.slow
    def test_a_loss_that_trains(self, attempt):
        found = conditions(attempt({"objective": ["moves-weights"]}))
        assert found["weights"] == "weights that its network or its loss changes beside the optimizer"

    def test_judged_text_in_batches_that_one_could_not_foresee(self, attempt):
        with refused(ConfigError, "trained-on-judged-text"):
            attempt({"objective": ["draws-elsewhere"]}, set={"training.steps": 2000})

    def test_a_tokenizer_that_loses_letters_of_late_documents(self, attempt, tmp_path):
        rows = [f"{number} ab cd ef gh" for number in range(700)]
        for name, text in {"train": rows, "judged": rows}.items():
            (tmp_path / f"{name}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
        data = {"path": str(tmp_path / "train.txt"), "validation": str(tmp_path / "judged.txt"), "document": "line"}
        with refused(ConfigError, "other-text"):
            attempt({"tokenizer": ["loses-later"]}, set={"data": data}, metric="bits_per_byte", allow_leaks=True)

    @pytest.mark.slow
    def test_a_plugin_that_judges_is_named(self, attempt):
        study = attempt({"model.norm": ["rms"]}, set={"objective": "four-batches"})
        assert any("objective=four-batches, which a plugin defines" in note for note in study.notes)


class TestFourthRound:
    """Attempts at what the first three left alone. Sizes: test_size_study.py; few and group: planning/test_variant_data.py."""

    def test_one_start_for_all_seeds(self, attempt):
        assert conditions(attempt(network("fixed-start"), set=PAIRS))["seeds"].endswith("for all seeds (module.pairs.weight)")

    def test_complex_weights_are_two_numbers(self, attempt):
        with refused(ConfigError, "not-equal"):
            attempt(network("complex"), set=PAIRS, equal=["parameters"])

    def test_a_tokenizer_that_overstates_the_bytes_of_the_first_document(self, attempt, tmp_path):
        (tmp_path / "judged.txt").write_text("zz ab cd\nab cd ef\nef gh ab\n", encoding="utf-8")
        (tmp_path / "train.txt").write_text("ab cd ef gh z\n" * 60, encoding="utf-8")
        data = {"path": str(tmp_path / "train.txt"), "validation": str(tmp_path / "judged.txt"), "document": "line"}
        with refused(ConfigError, "other-bytes"):
            attempt({"tokenizer": ["many-bytes"]}, set={"data": data}, metric="bits_per_byte")

    @pytest.mark.slow
    def test_wider_than_where_it_is_matched(self, attempt):
        study = attempt({"model.feedforward": ["wide-in-earnest"]}, match="parameters")
        assert "parameters" in conditions(study)

    @pytest.mark.slow
    def test_text_of_its_own(self, attempt):
        assert conditions(attempt({"objective": ["more-text"]}))["data order"] == "the text in another order"

    @pytest.mark.slow
    def test_steps_in_a_grid_of_its_own(self, attempt):
        found = conditions(attempt({}, tuned={"training.steps": [80, 160]}, seeds=None))
        assert found["tuning"] == "a grid of its own (training.steps)"
        assert "tokens" in found

    @pytest.mark.slow
    def test_the_same_question_with_other_seeds_is_one_question(self, attempt, tmp_path):
        attempt(network("kind-scores"), set=PAIRS, seeds=6, out=tmp_path / "first")
        study = attempt(network("kind-scores"), set=PAIRS, seeds=6, first_seed=100)
        assert any(one.studies for one in study.earlier.values())

    @pytest.mark.slow
    @pytest.mark.parametrize("vary", [{"training.schedule": ["thrice"]}, network("double")])
    def test_a_rate_inside_a_schedule_and_precision_inside_a_network_are_not_seen(self, attempt, vary):
        study = attempt(vary, set=PAIRS)
        assert not {"training", "precision"} & set(conditions(study))


class TestFifthRound:
    """What happens to an honest researcher. Those that change nothing are in docs/statistics-long.md alone."""

    def test_a_block_that_forgets_dropout(self, attempt):
        found = conditions(attempt({"model.block": ["twin"]}, set={"model.dropout": 0.2}))
        assert found == {"dropout": "dropout in 3 places instead of 7"}

    @pytest.mark.slow
    def test_dropout_of_its_own_beside_the_change(self, attempt):
        study = attempt({"model.norm": ["rms"], "model.dropout": [0.0]}, cross=True, set={"model.dropout": 0.2})
        assert conditions(study) == {"training": "its own model.dropout=0 instead of 0.2"}

    @pytest.mark.slow
    def test_a_parent_of_another_split(self, attempt, tmp_path):
        """It has read nine tenths of what the study holds out."""
        first = attempt({"model.norm": ["rms"]}, set={"data.split.seed": 1}, out=tmp_path / "first")
        parent = first.directory.trial(first.plan.trials()[0])
        study = attempt({"init_from": [str(parent)]})
        assert conditions(study)["judged text"].startswith("a parent that was trained on 9")
        assert "a parent that was trained on 9" in study.verdicts[0].sentence


@pytest.mark.slow
def test_better_with_its_conditions(attempt):
    verdict = attempt({"training.steps": [160]}, seeds=6).verdicts[0]
    assert verdict.verdict == "better"
    assert {"flops", "tokens"} <= {one.what for one in verdict.conditions} <= {"flops", "tokens", "seconds"}
    assert "4 times the FLOPs" in verdict.headline
    assert "4 times the tokens" in verdict.headline


def test_a_sound_study_has_no_remark_more(attempt):
    """Two built-in changes: no condition, and every sentence as it would be without them."""
    study = attempt({"model.norm": ["rms"], "model.positions": ["rotary"]})
    assert [verdict.conditions for verdict in study.verdicts] == [(), ()]
    assert all("compared with" not in verdict.sentence for verdict in study.verdicts)
    assert [row["parameters"] for row in study.table] == [facts.parameters for facts in study.book.variants.values()]
    assert all("better than the bigram" in note for note in study.notes)


def test_the_plugin_is_stored_with_the_study(several):
    (stored,) = (several.folder / "plugins").glob("*-hostile_parts.py")
    assert stored.read_bytes() == PLUGIN.read_bytes()
    assert (several.folder / "plugins" / "files.json").is_file()
