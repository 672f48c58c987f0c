"""Reports: the contract's JSON, sentences for people, and errors for programs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from glassformer.checks.check_report import LAWS, CheckReport, Finding, LawResults, short_error
from glassformer.foundation.errors import CannotTell, CheckFailed

FUTURE = Finding("causality", "blocks.0.merge", 3, 1, 0.25, {"tokens": [4, 5], "mode": "training", "precision": "float64"})
REPORT = CheckReport("a model", (FUTURE,), {"causality": "by trying"}, {"cache": "it has none"}, ("A note.",), 1.23456)


def test_json_is_the_contract() -> None:
    document = json.loads(json.dumps(REPORT.to_dict()))
    assert document["passed"] is False
    assert document["findings"] == [
        {
            "law": "causality",
            "where": "blocks.0.merge",
            "from_position": 3,
            "to_position": 1,
            "size": 0.25,
            "example": {"tokens": [4, 5], "mode": "training", "precision": "float64"},
        }
    ]
    assert document["seconds"] == 1.235


def test_lines_say_what_failed_what_passed_and_what_was_not_judged() -> None:
    lines = REPORT.lines()
    assert lines[0].startswith(
        "FAILED      causality: a leak from the future: another token at position 3 changes the scores at position 1 by 0.25"
    )
    assert lines[0].endswith("It enters at blocks.0.merge.")
    assert lines[1:] == ["not asked   cache: it has none", "A note."]
    assert str(CheckReport("it", tested={"batch": "so"})).splitlines()[1].startswith("passed      batch: no score depends")


PLACED = [law for law in LAWS if law not in ("path", "processes")]


@pytest.mark.parametrize("law", PLACED)
def test_every_law_has_a_sentence_with_both_positions(law: str) -> None:
    sentence = Finding(law, "here", 30, 17, 0.5, {}).sentence  # type: ignore[arg-type]
    assert sentence.startswith(f"{law}: ")
    assert "30" in sentence or law == "state"  # which no one position brings about
    assert "17" in sentence


@pytest.mark.parametrize("law", PLACED)
def test_a_sentence_says_what_was_measured(law: str) -> None:
    vectors = Finding(law, "here", 30, 17, 0.5, {"measured": "vectors before the head"})  # type: ignore[arg-type]
    assert "the vectors before the head at position 17" in vectors.sentence
    assert "the scores at position 17" in Finding(law, "here", 30, 17, 0.5, {}).sentence  # type: ignore[arg-type]


def test_require_raises_with_exit_code_three() -> None:
    with pytest.raises(CheckFailed) as caught:
        REPORT.require()
    assert caught.value.exit_code == 3
    CheckReport("fine").require()


def test_what_cannot_be_told_is_neither_passed_nor_broken() -> None:
    report = CheckReport("it", tested={"batch": "so"}, cannot_tell={"cache": "it raised"})
    assert (report.passed, report.broken, report.verdict) == (False, frozenset(), "cannot tell")
    assert report.judged == {"batch": "passed", "cache": "cannot tell"}
    assert "cannot tell cache: it raised" in report.lines()
    with pytest.raises(CannotTell, match="cache could not be judged: it raised") as caught:
        report.require()
    assert caught.value.exit_code == 1
    assert CheckReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_reports_of_two_paths_are_joined_law_by_law() -> None:
    model = CheckReport("it", tested={"batch": "so"}, not_judged={"labels": "no"}, notes=("a",), seconds=1.0)
    path = CheckReport("the loss", tested={"batch": "thus", "labels": "all"}, notes=("a", "b"), seconds=2.0)
    both = model.joined(path)
    assert (both.subject, both.tested) == ("it", {"batch": "so; thus", "labels": "all"})
    assert (both.not_judged, both.notes, both.seconds) == ({}, ("a", "b"), 3.0)
    assert both.passed
    unsure = model.joined(CheckReport("the loss", cannot_tell={"batch": "it raised"}))
    assert unsure.judged == {"batch": "cannot tell"}  # what holds for one path only does not hold
    assert unsure.cannot_tell == {"batch": "the loss: it raised"}
    assert model.joined(REPORT).broken == REPORT.broken


def test_html_is_escaped() -> None:
    assert "&lt;b&gt;" in CheckReport("<b>")._repr_html_()


def test_reading_a_report_imports_no_torch() -> None:
    program = "import sys, glassformer.checks.check_report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_fast_path_that_gives_other_numbers_differs_and_does_not_leak() -> None:
    example = {"measured": "grad_norm", "precision": "float32", "mode": "training"}
    other = Finding("path", "the compiled step", 0, 0, 0.5, example)
    told = "path: the compiled step differs from the plain one: its grad_norm by 0.5 (training mode, float32)."
    assert other.sentence == told
    assert CheckReport("it", findings=(other,)).only_differs
    leak = Finding("causality", "the compiled loss", 3, 1, 0.5, {})
    assert not CheckReport("it", findings=(leak, other)).only_differs
    assert not CheckReport("it").only_differs
    for findings, differs in (((other,), True), ((leak, other), False)):
        with pytest.raises(CheckFailed) as stopped:
            CheckReport("it", findings=findings).require()
        assert stopped.value.only_differs is differs


LEAK = Finding("causality", "blocks.0", 5, 2, 0.25, {})


def raising() -> Finding | None:
    raise RuntimeError("\n  the first line that says something\nanother")


def judged(results: LawResults) -> dict[str, str]:
    return results.report("a model", 1.5).to_dict()["judged"]


def test_the_three_outcomes() -> None:
    results = LawResults()
    results.judge("causality", lambda: LEAK, lambda: "all places")
    results.judge("batch", lambda: None, lambda: "3 rows")
    results.judge("state", raising, lambda: "twice")
    report = results.report("a model", 1.5)
    assert report.findings == (LEAK,)
    assert judged(results) == {"causality": "broken", "batch": "passed", "state": "cannot tell"}
    assert results.cannot_tell == {"state": "RuntimeError: the first line that says something"}
    assert (report.subject, report.seconds, report.passed) == ("a model", 1.5, False)


def test_doubt_is_no_pass_and_a_finding_stands_in_spite_of_it() -> None:
    results = LawResults()
    results.judge("causality", lambda: None, lambda: "all places", unsure="it gives no numbers")
    assert (results.tested, results.cannot_tell) == ({}, {"causality": "it gives no numbers"})
    results = LawResults()
    results.judge("causality", lambda: LEAK, lambda: "all places", unsure="it gives no numbers")
    assert (results.findings, results.cannot_tell) == ([LEAK], {})


def test_the_way_is_asked_for_after_the_test() -> None:
    order: list[str] = []
    LawResults().judge("batch", lambda: order.append("test"), lambda: order.append("way") or "x")
    assert order == ["test", "way"]


def test_only_an_exception_is_an_outcome() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LawResults().judge("batch", interrupted, lambda: "3 rows")


def test_what_is_added_comes_after() -> None:
    before, head = LawResults(), LawResults()
    before.judge("batch", lambda: None, lambda: "3 rows")
    before.note(["one", "two"])
    head.judge("batch", lambda: None, lambda: "2 rows")
    head.judge("causality", lambda: LEAK, lambda: "all places")
    head.not_judged["cache"] = "it has none"
    head.cannot_tell["padding"] = "no mask"
    head.note(["two", "three"])
    before.add(head, "through the head")
    assert before.tested == {"batch": "3 rows; through the head: 2 rows", "causality": "all places"}
    assert before.findings == [LEAK]
    assert (before.not_judged, before.cannot_tell) == ({"cache": "it has none"}, {"padding": "through the head: no mask"})
    assert before.report("a model", 0.0).notes == ("one", "two", "three")


def test_an_error_in_one_line() -> None:
    assert short_error(ValueError()) == "ValueError"
    assert short_error(ValueError(" \n\n x \ny")) == "ValueError: x"
    assert short_error(KeyError("k" * 300)) == "KeyError: " + repr("k" * 300)[:200]
