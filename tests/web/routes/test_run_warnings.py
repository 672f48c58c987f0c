"""What a person should know first: a run that ended badly, one that beats nothing."""

from __future__ import annotations

import pytest

from glassformer.evaluation.results import Evaluation
from glassformer.foundation.files import read_json, write_json
from glassformer.runs.live_curves import Curves
from glassformer.web.routes.runs import evaluation_blocks, evaluation_of, health_of


def test_endings_are_said(folder, make_run) -> None:
    run = make_run(folder / "bad", losses=(2.0, float("nan")), status="diverged")
    curves = Curves(run.metrics_file)
    curves.update()
    (one,) = health_of(run, {"status": "diverged", "reason": "at step 2."}, curves)
    assert (one["code"], one["tone"]) == ("diverged", "warning")
    (one,) = health_of(run, {"status": "running"}, curves)
    assert "not a number" in one["text"]
    assert evaluation_of(run) is None


def measured(tiny, tmp_path, value: float):
    from glassformer.experiment import train

    run = train(tiny, out=tmp_path / "run")
    run.evaluation()
    file = run.directory.evaluation_file("validation", 6)
    document = read_json(file)
    document["metrics"]["loss"]["value"] = value
    write_json(file, document)
    curves = Curves(run.directory.metrics_file)
    curves.update()
    return run.directory, curves


def test_what_it_does_not_beat_is_named(tiny, tmp_path) -> None:
    run, curves = measured(tiny, tmp_path, 50.0)
    found = [one["text"] for one in health_of(run, {"status": "finished"}, curves)]
    assert any("not better than the trivial baseline" in text or "collapsed" in text for text in found)
    assert any("bigram" in text for text in found)
    evaluation = evaluation_of(run)
    assert isinstance(evaluation, Evaluation)
    assert evaluation_blocks(evaluation)[0].header == evaluation.header()
    run.evaluation_file("validation", 6).write_text("{")
    assert evaluation_of(run) is None


@pytest.mark.parametrize(("laws", "told"), [(["path"], "differs from the plain step"), (["causality", "path"], "found a leak")])
def test_a_step_that_differs_is_told_from_a_leak(tiny, tmp_path, laws, told) -> None:
    run, curves = measured(tiny, tmp_path, 1.0)
    kept = read_json(run.evaluation_file("validation", 6))
    write_json(run.evaluation_file("validation", 6), {**kept, "tainted": True, "taint": "so"})
    run.write_environment({**run.read_environment(), "checks": {"findings": [{"law": law} for law in laws]}})
    assert any(told in one["text"] for one in health_of(run, {"status": "finished"}, curves))
