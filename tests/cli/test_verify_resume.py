"""``glassformer verify-resume``: what it prints, and 3 when bits differ (the proof itself is tested with real processes)."""

from __future__ import annotations

import pytest

from glassformer.checking.verify_resume import ResumeProof


@pytest.mark.parametrize("same", [True, False])
def test_the_verdict(cli, tiny_file, monkeypatch, same: bool) -> None:
    asked = {}

    def prove(recipe: str, **options: object) -> ResumeProof:
        asked.update(options, recipe=recipe)
        broken = [{"killed_at_steps": [2], "sha256": {"model.safetensors": "a" if same else "b"}, "same": same}]
        return ResumeProof(same, {"model.safetensors": "a"}, broken)

    monkeypatch.setattr("glassformer.checking.verify_resume.verify_resume", prove)
    answer = cli("verify-resume", tiny_file, "--kills", 3, "--times", 2, "--seed", 5, "--set", "model.width=16")
    assert answer.code == (0 if same else 3)
    assert "model.safetensors  sha256 a" in answer.out
    assert ("Same bits: 2 broken" in answer.out) == same
    assert {key: asked[key] for key in ("kills", "times", "seed", "set")} == {
        "kills": 3,
        "times": 2,
        "seed": 5,
        "set": {"model.width": 16},
    }
    document = cli("verify-resume", tiny_file, "--json")
    assert document.json["same"] is same
    assert document.code == (0 if same else 3)


def test_more_kills_than_steps_are_a_wrong_flag(cli, tiny_file, monkeypatch) -> None:
    monkeypatch.setattr("glassformer.checking.verify_resume._train", lambda *arguments: pytest.fail("something was trained"))
    answer = cli("verify-resume", tiny_file, "--kills", 6)
    assert answer.code == 2
    assert answer.sentence.startswith("Error: --kills 6 is too many for a run of training.steps=6: ")
