"""Before anything is trained: the data of every variant, the same text for all, equal sizes where asked for."""

from __future__ import annotations

import pytest
from tests.refusals import refused

from glassformer.foundation.errors import ConfigError
from glassformer.recipe import load_recipe
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.variant_data import prepared_facts
from glassformer.study.running.trial_store import parent_checksum


def facts_of(recipe, *changes, **more):
    names = [{"name": f"change {number}", "set": change} for number, change in enumerate(changes)]
    plan = StudyPlan.parse({"base": recipe, "changes": names, **more})
    return prepared_facts(plan, lambda settings: load_recipe(recipe, settings).to_dict())


def test_variants_with_the_same_data_agree(recipe):
    facts = facts_of(recipe, {"model.positions": "none"})
    base, change = facts.values()
    assert (base.data, base.documents) == (change.data, change.documents)
    assert base.recipe != change.recipe
    assert base.check is None


def test_the_weights_it_starts_from_are_known_by_their_sum(recipe, made_up, tmp_path):
    run = made_up.run(tmp_path / "parent", recipe)
    (run.checkpoint(24) / "weights").write_bytes(b"one")
    first = parent_checksum(run.root)
    (run.checkpoint(24) / "weights").write_bytes(b"two")
    assert parent_checksum(None) == ""
    assert first != parent_checksum(run.root) != ""
    assert facts_of(recipe, {"model.positions": "none"})["base"].parent == ""


def test_another_text_to_measure_on_is_refused(recipe, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("abcdefgh\n" * 30)
    with refused(ConfigError, "other-documents", "change 0"):
        facts_of(recipe, {"data.validation": str(other)})


def test_labelled_texts_of_another_file_with_the_same_name_are_refused(tmp_path):
    """Their ids are the file's name and the line; the texts must be the same, too."""
    lines = [f"{'good' if number % 2 else 'bad'}\tfilm {number} was fun\n" for number in range(40)]
    files = [tmp_path / "one" / "lab.tsv", tmp_path / "other" / "lab.tsv"]
    for file, rows in zip(files, (lines, lines[::-1])):
        file.parent.mkdir()
        file.write_text("label\ttext\n" + "".join(rows))
    recipe = {
        "data": {"path": str(files[0])},
        "tokenizer": {"kind": "word", "min_count": 1},
        "objective": "labels",
        "model": {"width": 8, "layers": 1, "heads": 2, "context": 9, "causal": False, "head": "classifier"},
        "training": {"steps": 1, "batch_size": 4},
    }
    with refused(ConfigError, "other-documents", "change 0"):
        facts_of(recipe, {"data.path": str(files[1])}, metric="accuracy")


def test_more_text_to_train_on_is_a_fair_change(recipe, tmp_path, text_file):
    validation = tmp_path / "validation.txt"
    validation.write_text("abcdefgh\ndefghabc\nhgfedcba\n")
    more = tmp_path / "more.txt"
    more.write_text(text_file.read_text() * 2 + "abc\n")
    recipe["data"]["validation"] = str(validation)
    facts = facts_of(recipe, {"data.path": str(more), "data.validation": str(validation)})
    base, change = facts.values()
    assert base.documents == change.documents
    assert base.data != change.data


def test_other_tokens_need_another_metric(recipe):
    with refused(ConfigError, "other-tokens", "--metric bits_per_byte"):
        facts_of(recipe, {"tokenizer": "byte"}, {"tokenizer": {"kind": "bpe", "vocab": 270}})
    facts = facts_of(recipe, {"tokenizer": {"kind": "bpe", "vocab": 270}}, metric="bits_per_byte")
    assert len(facts) == 2


def test_one_document_cannot_be_paired_across_tokenizers(recipe):
    recipe["data"]["document"] = "file"
    recipe["data"]["split"] = {"validation": 0.2}
    with refused(ConfigError, "one-document"):
        facts_of(recipe, {"tokenizer": {"kind": "bpe", "vocab": 270}}, metric="bits_per_byte")


MASKED = {"objective": "masked", "model.causal": False}


@pytest.mark.parametrize(
    ("base", "change", "key"),
    [
        (MASKED, {"model.context": 5}, "model.context"),
        ({"objective": "spans", "model.context": 30}, {"model.context": 20}, "longest"),
    ],
)
def test_what_asks_other_tokens_is_refused_before_training(recipe, base, change, key):
    with refused(ConfigError, "other-targets", "change 0", key):
        facts_of(recipe, change, set=base)


@pytest.mark.parametrize(
    ("base", "change"), [(MASKED, {"objective.share": 0.4}), ({"objective": "spans"}, {"objective.span": 0.5})]
)
def test_the_evaluator_of_the_baseline_judges_another_objective(recipe, base, change):
    facts = facts_of(recipe, change, {"training.lr": 0.01}, set=base)
    assert [bool(one.judge) for one in facts.values()] == [False, True, False]


def test_a_grid_of_the_baseline_must_not_change_its_evaluator(recipe):
    tune = {"grid": {"objective.share": [0.15, 0.4]}, "seeds": 1}
    with refused(ConfigError, "other-targets", "base (setting 2 of its grid)", "objective.share"):
        facts_of(recipe, {"model.positions": "none"}, set=MASKED, tune=tune)


def test_a_text_that_is_all_trained_on_is_refused(recipe, text_file):
    recipe["data"]["validation"] = str(text_file)
    with refused(ConfigError, "judged-text-is-trained-on"):
        facts_of(recipe, {"model.positions": "none"})
    assert facts_of(recipe, {"model.positions": "none"}, allow_leaks=True)


def test_settings_that_ask_the_same_may_differ(recipe):
    changes = ({"objective.learn": "answer"}, {"model.context": 40}, {"training.lr": 0.01})
    assert len(facts_of(recipe, *changes, set={"objective": "spans", "model.context": 60})) == 4


def test_a_grid_must_not_change_what_is_asked(recipe):
    tune = {"grid": {"training.lr": [0.01, 0.03], "model.context": [7, 5]}, "seeds": 1}
    with refused(ConfigError, "other-targets", "base (setting 2 of its grid)", "model.context"):
        facts_of(recipe, {"model.positions": "none"}, set=MASKED, tune=tune)
    assert facts_of(recipe, {"model.positions": "none"}, tune=tune)  # every token of the text is asked, whatever the context


def test_no_validation_text(recipe):
    recipe["data"]["split"] = {"validation": 0.0}
    with refused(ConfigError, "no-such-split", "split=validation"):
        facts_of(recipe, {"model.positions": "none"})


def test_what_so_little_text_cannot_decide_is_said_before_the_first_run(recipe):
    assert facts_of(recipe, {"model.positions": "none"})["base"].notes == ()
    recipe["data"] |= {"document": "file", "split": {"validation": 0.2}}
    (said,) = facts_of(recipe, {"model.positions": "none"})["base"].notes
    assert "a single document or block, so nothing can be decided for other text" in said


def test_a_metric_that_is_not_measured(recipe):
    with refused(ConfigError, "metric-not-judged", "metric=exact_match", "objective=next-token of base"):
        facts_of(recipe, {"model.positions": "none"}, metric="exact_match")


def test_matching_is_written_down(recipe):
    facts = facts_of(recipe, {"model.positions": "none"}, {"model.merge": "shift"}, match="parameters")
    base, none, shift = facts.values()
    assert list(none.matched) == ["model.feedforward.inner"]
    assert "model.feedforward.inner is set to" in none.notes[0]
    assert (base.matched, shift.matched, shift.notes) == ({}, {}, ())
