"""No trial is trained twice: what a study keeps, what the next one takes, what damage and other code do to it."""

from __future__ import annotations

import json

import pytest

from glassformer.foundation.progress import SILENT
from glassformer.study.compare import compare
from glassformer.study.store import TrialStore


class Said:
    """A watcher that keeps the sentences."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def progress(self, *args: object) -> None:
        SILENT.progress("", 0, 0)

    def taken(self) -> str:
        return next((one for one in self.sentences if "taken from earlier studies" in one), "")


@pytest.fixture
def ask(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def asked(out: str, *positions: str, **more):
        watch = Said()
        vary = {"model.positions": list(positions)}
        return compare(recipe, vary, seeds=2, out=tmp_path / out, on="inline", watch=watch, **more), watch

    return asked


def test_a_study_with_one_more_change_trains_only_that_change(ask, tmp_path):
    first, said = ask("a/first", "alibi")
    assert said.taken() == ""
    assert len(TrialStore().entries()) == 4
    second, said = ask("b/second", "alibi", "rotary")
    assert said.taken().startswith("4 of 6 trials are taken from earlier studies")
    assert list(second.seed_values("base")) == list(first.seed_values("base"))
    assert first.verdicts[0].difference == second.verdicts[0].difference

    file = next(path for path in TrialStore().root.rglob("state.json"))
    file.write_text(json.dumps({"status": "finished", "step": 9}))
    _, said = ask("c/third", "alibi", "rotary")
    assert any("is damaged and was removed" in sentence for sentence in said.sentences)
    assert said.taken().startswith("5 of 6 trials")

    _, said = ask("d/fourth", "alibi", store=False)
    assert said.taken() == ""
    assert TrialStore().empty() == 6
    assert TrialStore().entries() == []
    assert first.seed_values("base") is not None


def test_the_same_runs_are_not_judged_again_by_other_rules(ask):
    ask("studies/first", "alibi")
    study, said = ask("studies/second", "alibi", margin=0.2)
    assert any("margin of 0.01, which stands" in sentence for sentence in said.sentences)
    assert study.earlier["model.positions=alibi"].margin == 0.01
