"""An objective in one plugin file: trained, measured beside its baseline, checked, shown, compared, read without the plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.refusals import refused

import glassformer as gf
from glassformer.checking.verify_resume import verify_resume
from glassformer.foundation.errors import ConfigError

PLUGIN = Path(__file__).parents[2] / "docs" / "snippets" / "parity.py"


@pytest.fixture
def parity(tiny_text) -> dict:
    return {
        "data": {"path": str(tiny_text), "document": "line"},
        "tokenizer": "byte",
        "objective": "parity",
        "model": {"width": 12, "layers": 1, "heads": 2, "context": 5, "head": "untied"},
        "training": {"steps": 6, "batch_size": 8},
        "evaluation": {"every": 3},
        "checkpoint": {"every": 3, "best": True},
    }


def test_it_is_at_most_sixty_lines() -> None:
    assert len(PLUGIN.read_text(encoding="utf-8").splitlines()) <= 60


def test_trained_measured_checked_and_shown(parity, tmp_path) -> None:
    run = gf.train(parity, out=tmp_path / "run", plugins=[PLUGIN])
    assert run.summary()["metric"] == "accuracy"
    assert [record["step"] for record in run.records() if "validation_accuracy" in record] == [3, 6]
    evaluation = run.evaluate()
    assert set(evaluation.baselines) == {"always odd", "untrained"}
    assert evaluation.trivial == ("always odd", "untrained")
    assert gf.check(run.model).passed
    assert run.checkpoint("best").step in (3, 6)
    with refused(ConfigError, "no-token-scores"):
        run.generate("the", max_new_tokens=3)
    with refused(ConfigError, "no-class"):
        run.save_pretrained(tmp_path / "exported")
    with pytest.raises(ConfigError, match=r"model\.head=untied"):
        gf.train(parity, set={"model.head": "tied"}, out=tmp_path / "tied")
    shown = subprocess.run(
        [sys.executable, "-m", "glassformer", "data", "show", str(run.directory.recipe_file), "--plugin", str(PLUGIN)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "odd" in shown
    assert "even" in shown


def test_compared_and_read_without_the_plugin(parity, tmp_path) -> None:
    study = gf.compare(
        parity, {"model.width": [16]}, seeds=2, out=tmp_path / "study", on="inline", plugins=[PLUGIN], allow_leaks=False
    )
    assert study.to_dict()["metric"] == "accuracy"
    program = (
        "import sys; from glassformer.study.study import Study; from glassformer.study.directory import StudyDirectory;"
        "from pathlib import Path; study = Study(StudyDirectory(Path(sys.argv[1])), {});"
        "print(study.metric.unit, study.verdicts[0].verdict); study.report(); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "study")], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("of all items")
    with refused(ConfigError, "unknown-name", "loss"):
        gf.compare(parity, {"model.width": [16]}, seeds=2, metric="loss", out=tmp_path / "other", plugins=[PLUGIN])


@pytest.mark.slow
def test_resumed_exactly(parity, tmp_path) -> None:
    assert verify_resume(parity, plugins=[PLUGIN]).same
