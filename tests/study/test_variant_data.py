"""Before anything is trained: the data of every variant, the same text for all, equal sizes where asked for."""

from __future__ import annotations

import pytest

from glassformer.foundation.errors import ConfigError
from glassformer.recipe import load_recipe
from glassformer.study.plan import StudyPlan
from glassformer.study.variant_data import prepared_facts


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


def test_another_text_to_measure_on_is_refused(recipe, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("abcdefgh\n" * 30)
    with pytest.raises(ConfigError, match="change 0 is measured on other documents than the baseline"):
        facts_of(recipe, {"data.validation": str(other)})


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
    with pytest.raises(ConfigError, match=r"other tokens than the baseline.*--metric bits_per_byte"):
        facts_of(recipe, {"tokenizer": "byte"}, {"tokenizer": {"kind": "bpe", "vocab": 270}})
    facts = facts_of(recipe, {"tokenizer": {"kind": "bpe", "vocab": 270}}, metric="bits_per_byte")
    assert len(facts) == 2


def test_one_document_cannot_be_paired_across_tokenizers(recipe):
    recipe["data"]["document"] = "file"
    recipe["data"]["split"] = {"validation": 0.2}
    with pytest.raises(ConfigError, match="the validation text is one document"):
        facts_of(recipe, {"tokenizer": {"kind": "bpe", "vocab": 270}}, metric="bits_per_byte")


def test_no_validation_text(recipe):
    recipe["data"]["split"] = {"validation": 0.0}
    with pytest.raises(ConfigError, match="no validation part to compare on"):
        facts_of(recipe, {"model.positions": "none"})


def test_a_metric_that_is_not_measured(recipe):
    with pytest.raises(ConfigError, match="metric=exact_match is not measured by objective=next-token of base"):
        facts_of(recipe, {"model.positions": "none"}, metric="exact_match")


def test_matching_is_written_down(recipe):
    facts = facts_of(recipe, {"model.positions": "none"}, {"model.merge": "shift"}, match="parameters")
    base, none, shift = facts.values()
    assert list(none.matched) == ["model.feedforward.inner"]
    assert "model.feedforward.inner is set to" in none.notes[0]
    assert (base.matched, shift.matched, shift.notes) == ({}, {}, ())
