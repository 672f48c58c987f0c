"""Laws judged one by one: what is found, what holds, what cannot be told; an exception loses nothing of another law."""

from __future__ import annotations

import pytest

from glassformer.checks.check_report import Finding, LawResults, short_error

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
    before.add(head)
    assert before.tested == {"batch": "3 rows; through the head: 2 rows", "causality": "all places"}
    assert before.findings == [LEAK]
    assert (before.not_judged, before.cannot_tell) == ({"cache": "it has none"}, {"padding": "no mask"})
    assert before.report("a model", 0.0).notes == ("one", "two", "three")


def test_an_error_in_one_line() -> None:
    assert short_error(ValueError()) == "ValueError"
    assert short_error(ValueError(" \n\n x \ny")) == "ValueError: x"
    assert short_error(KeyError("k" * 300)) == "KeyError: " + repr("k" * 300)[:200]
