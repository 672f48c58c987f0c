"""Callbacks hear of every record; each logger's file is read back by its own library, the training stays as it was."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.foundation.errors import BadArgument, MissingDependency, UsageError
from glassformer.runs.callbacks import CsvLogger, Training, callbacks_of

pytestmark = pytest.mark.usefixtures("unchecked")


class Heard(gf.Callback):
    def __init__(self) -> None:
        self.called: list[tuple[str, object]] = []

    def on_start(self, training):
        self.training = training
        self.called.append(("start", (training.step, training.steps)))

    def on_step(self, record):
        self.called.append(("step", record["step"]))

    def on_evaluation(self, record):
        self.called.append(("evaluation", record["step"]))

    def on_save(self, checkpoint):
        self.called.append(("save", checkpoint.name))

    def on_end(self, error):
        self.called.append(("end", type(error).__name__))

    def on_trial(self, variant, seed, run):
        self.called.append(("trial", (variant, seed, run.status)))

    def on_study(self, study):
        self.called.append(("study", [one.variant for one in study.verdicts]))


def test_everything_is_heard_in_order(tiny, tmp_path) -> None:
    heard = Heard()
    run = gf.train(tiny, out=tmp_path / "run", callbacks=[heard])
    assert heard.called[0] == ("start", (0, 6))
    assert [what for kind, what in heard.called if kind == "step"] == [1, 2, 3, 4, 5, 6]
    assert [what for kind, what in heard.called if kind == "evaluation"] == [3, 6]
    assert [what for kind, what in heard.called if kind == "save"] == ["step-2", "step-4", "step-6"]
    assert heard.called[-1] == ("end", "NoneType")
    assert heard.training.run.folder == run.folder
    assert isinstance(heard.training.sample(), str)
    assert heard.training.attention().get_axes()


def test_an_error_ends_the_training_and_is_told(tiny, tmp_path) -> None:
    class Wrong(Heard):
        def on_step(self, record):
            raise ValueError("mine")

    wrong, heard = Wrong(), Heard()
    with pytest.raises(ValueError, match="mine"):
        gf.train(tiny, out=tmp_path / "run", callbacks=[heard, wrong])
    assert heard.called[-1] == wrong.called[-1] == ("end", "ValueError")
    assert gf.load(tmp_path / "run").status == "failed"


def test_what_cannot_be_called_is_refused(tiny, tmp_path, monkeypatch) -> None:
    for wrong in ("neptune", print):
        with pytest.raises(BadArgument):
            gf.train(tiny, out=tmp_path / "run", callbacks=[wrong])
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependency) as missing:
        callbacks_of(["wandb"])
    assert missing.value.reason == "no-logger"
    assert not (tmp_path / "run").exists()


@pytest.fixture
def plain(tiny, tmp_path) -> gf.Run:
    return gf.train(tiny, out=tmp_path / "plain")


def losses(run: gf.Run) -> list[float]:
    return [record["loss"] for record in run.records() if "loss" in record]


def test_tensorboard_reads_its_event_file(tiny, tmp_path, plain) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    run = gf.train(tiny, out=tmp_path / "run", callbacks=["tensorboard"])
    assert losses(run) == losses(plain)  # samples and maps changed nothing
    board = EventAccumulator(str(run.folder / "tensorboard"))
    board.Reload()
    assert [event.value for event in board.Scalars("loss")] == pytest.approx(losses(run))
    assert [event.step for event in board.Scalars("validation_loss")] == [3, 6]
    assert [event.step for event in board.Images("attention")] == [3, 6]
    assert [event.step for event in board.Tensors("sample/text_summary")] == [3, 6]
    start = board.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    settings = HParamsPluginData.FromString(start).session_start_info.hparams
    assert settings["training.lr"].number_value == 0.01


def rows_of(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def test_csv_goes_on_where_a_run_is_resumed(tiny, tmp_path) -> None:
    gf.train(tiny, out=tmp_path / "run", callbacks=["csv"])
    file = tmp_path / "run" / "metrics.csv"
    text = file.read_text()
    file.write_text(text.replace("\n6,", "\n5,,,,,,\n6,"))  # what a killed process wrote beyond its checkpoint, at step 4
    steps = tiny["training"] | {"steps": 8}
    run = gf.train({**tiny, "training": steps}, out=tmp_path / "run", resume=True, callbacks=["csv"])
    rows = rows_of(file)
    assert [row["step"] for row in rows if row["loss"]] == [str(step) for step in range(1, 9)]
    assert [float(row["loss"]) for row in rows if row["loss"]] == losses(run)
    assert [row["step"] for row in rows if row["validation_loss"]] == ["3", "6", "8"]


def test_csv_makes_no_samples_and_no_pictures(tmp_path) -> None:
    def wasted() -> None:
        pytest.fail("made and discarded")

    logger = CsvLogger()
    logger.training = Training(None, sample=wasted, attention=wasted)
    logger.open(tmp_path)
    logger.on_evaluation({"step": 3, "validation_loss": 1.5})
    assert rows_of(tmp_path / "metrics.csv") == [{"step": "3", "validation_loss": "1.5"}]


def test_wandb_offline(tiny, tmp_path, monkeypatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = gf.train(tiny, out=tmp_path / "run", callbacks=["wandb"])
    (file,) = (run.folder / "wandb").glob("offline-run-*/*.wandb")
    written = file.read_bytes()  # its reader is not in the Python package
    assert all(name in written for name in (b"validation_loss", b"grad_norm", b"training"))
    media = {path.name.partition("_")[0] for path in file.parent.glob("files/media/*/*") if path.is_file()}
    assert media == {"sample", "attention"}


def test_a_study_tells_its_trials(tiny, tmp_path) -> None:
    heard = Heard()
    study = gf.compare(
        tiny, {"model.norm": ["rms"]}, seeds=2, on="inline", store=False, out=tmp_path / "study", callbacks=[heard, "csv"]
    )
    trials = [what for kind, what in heard.called if kind == "trial"]
    done = [row for row in study.table if row["seeds"]]
    assert len(trials) == sum(row["seeds"] for row in done)
    assert ("base", 0, "finished") in trials
    assert heard.called[-1] == ("study", ["model.norm=rms"])
    values = rows_of(study.folder / "values.csv")
    assert [(row["variant"], int(row["seed"])) for row in values][:2] == [("base", 0), ("base", 1)]
    trial = next((study.folder / "trials" / "base").glob("seed-0/metrics.csv"))
    assert len(rows_of(trial)) == 6 + 2


def test_own_objects_do_not_travel_to_other_processes(tiny, tmp_path) -> None:
    with pytest.raises(UsageError) as refused:
        gf.train(tiny, out=tmp_path / "run", processes=2, callbacks=[Heard()])
    assert refused.value.reason == "callback-in-processes"
