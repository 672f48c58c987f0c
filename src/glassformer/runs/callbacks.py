"""Callbacks of a training or a study, and three of them that log: TensorBoard, Weights & Biases, CSV. Imports no torch.

Each logger uses the writer of its library, imported when the logger starts.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from glassformer.foundation.config import flatten
from glassformer.foundation.errors import BadArgument, MissingDependency
from glassformer.foundation.files import write_atomically
from glassformer.foundation.metrics import COLLAPSED_TO
from glassformer.runs.records import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOGS = {"tensorboard": "tensorboard", "wandb": "wandb", "csv": "csv"}
"""Loggers by name, and the module that each needs."""
NOT_SETTINGS = ("about", "result")


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Training:
    """A training under way, as callbacks see it."""

    run: Any
    """The ``Run``: its folder, recipe, tokenizer, data and records so far."""
    step: int = 0
    """Steps that were taken before: more than 0 where a run is resumed."""
    steps: int = 0
    model: Any = None
    """The network in training. Look at it, but leave its weights, mode and hooks as they were."""
    sample: Callable[[], str | None] = _nothing
    """Text that the model writes now; None where it writes none."""
    attention: Callable[[], Figure | None] = _nothing
    """The attention maps of all heads on the first validation text; None where there are none."""


class Callback:
    """Follows a training (``gf.train(callbacks=[...])``) or a study (``gf.compare``). Override what you need.

    An exception in a callback ends the training. With several processes, the first one calls.

    ```python
    class Losses(gf.Callback):
        def __init__(self):
            self.seen = []

        def on_step(self, record):
            self.seen.append(record["loss"])


    losses = Losses()
    small = {"training.steps": 4, "model.layers": 1, "model.width": 16, "model.context": 16}
    gf.train("docstrings-char", set=small, out="runs/losses", callbacks=[losses])
    print(losses.seen)
    ```
    """

    def on_start(self, training: Training) -> None:
        """Before the first step of this process."""

    def on_step(self, record: Mapping[str, Any]) -> None:
        """After a step: ``step``, ``loss``, ``grad_norm``, ``lr``. On a GPU, in groups of ``training.log_every``."""

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        """After an evaluation: ``step``, ``validation_loss`` and the objective's other metrics, ``seconds``."""

    def on_save(self, checkpoint: Path) -> None:
        """After a checkpoint was written to this folder."""

    def on_end(self, error: BaseException | None) -> None:
        """When the training ends; ``error`` is why it ended early, None if it finished."""

    def on_trial(self, variant: str, seed: int, run: Any) -> None:
        """In a study: a trial has finished (or was found in the store). ``run`` is its ``Run``."""

    def on_study(self, study: Any) -> None:
        """In a study: it has its verdicts."""


def callbacks_of(given: Sequence[Callback | str]) -> list[Callback]:
    """Callbacks, and loggers by name; raises if a name is unknown or its package is missing."""
    loggers: dict[str, Callable[[], Callback]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger, "csv": CsvLogger}
    for one in given:
        if isinstance(one, str) and one not in LOGS:
            raise BadArgument("log", one, f"use one of {', '.join(LOGS)}")
        if isinstance(one, str) and importlib.util.find_spec(LOGS[one]) is None:
            raise MissingDependency(f"--log {one} needs the package {one}; install glassformer[log].", reason="no-logger")
        if not isinstance(one, str | Callback):
            raise BadArgument("callbacks", one, "give objects of classes that extend glassformer.Callback, or names of loggers")
    return [loggers[one]() if isinstance(one, str) else one for one in given]


@contextmanager
def following(callbacks: Sequence[Callback], training: Training) -> Iterator[None]:
    """Calls ``on_start``, and ``on_end`` of those that started, however the training ends."""
    started: list[Callback] = []
    error: BaseException | None = None
    try:
        for one in callbacks:
            one.on_start(training)
            started.append(one)
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        for one in started:
            one.on_end(error)


class _Logger(Callback):
    """Writes scalars, samples, attention maps and settings of a training; of a study's trial, its records afterwards."""

    scalars_only: ClassVar[bool] = False
    """Whether samples and attention maps, which take time to make, are left out."""

    def __init__(self) -> None:
        self.training, self.last, self.trial = Training(None), dict[str, float](), ""
        self.group: str | None = None

    def on_start(self, training: Training) -> None:
        self.training, self.last = training, {}
        self.open(training.run.folder)

    def on_step(self, record: Mapping[str, Any]) -> None:
        self.scalars(record["step"], _numbers(record))

    def on_evaluation(self, record: Mapping[str, Any]) -> None:
        self.last = {name: value for name, value in _numbers(record).items() if name.startswith("validation_")} or self.last
        self.scalars(record["step"], _numbers(record))
        if self.scalars_only:
            return
        if (text := self.training.sample()) is not None:
            self.text(record["step"], "sample", text)
        if (figure := self.training.attention()) is not None:
            self.figure(record["step"], "attention", figure)

    def on_end(self, error: BaseException | None) -> None:
        recipe = flatten(self.training.run.recipe.to_dict())
        settings = {key: value for key, value in recipe.items() if key not in NOT_SETTINGS and value is not None}
        self.close({key: one if isinstance(one, str | int | float) else str(one) for key, one in settings.items()})

    def on_trial(self, variant: str, seed: int, run: Any) -> None:
        self.trial, self.group = f"{variant}-seed-{seed}", run.folder.resolve().parents[2].name
        self.on_start(Training(run))
        for record in run.records():
            self.on_step(record) if "loss" in record else self.on_evaluation(record)
        self.on_end(None)

    def on_study(self, study: Any) -> None:
        self.trial, self.group, self.last = "verdicts", study.folder.resolve().name, {}
        self.open(study.folder)
        self.text(0, "verdicts", f"```\n{study}\n```")
        self.figure(0, "differences", study.figure("differences"))
        self.close({})

    def open(self, folder: Path) -> None:
        """Begins to write about the run or study in ``folder``."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None: ...

    def text(self, step: int, name: str, text: str) -> None: ...

    def figure(self, step: int, name: str, figure: Figure) -> None: ...

    def close(self, settings: Mapping[str, Any]) -> None:
        """Writes the hyperparameters beside the last validation metrics (``self.last``), and ends."""


@final
class TensorBoardLogger(_Logger):
    """Event files in RUN/tensorboard, by torch's ``SummaryWriter``: ``tensorboard --logdir RUN``."""

    def open(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        done = self.training.step
        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=done + 1 if done else None)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def text(self, step: int, name: str, text: str) -> None:
        self.writer.add_text(name, text, step)

    def figure(self, step: int, name: str, figure: Figure) -> None:
        self.writer.add_figure(name, figure, step)

    def close(self, settings: Mapping[str, Any]) -> None:
        if settings:
            self.writer.add_hparams(dict(settings), {f"hparam/{key}": one for key, one in self.last.items()}, run_name=".")
        self.writer.close()


@final
class WandbLogger(_Logger):
    """A run of Weights & Biases in RUN/wandb. Offline unless WANDB_MODE says otherwise; ``wandb sync`` sends it later."""

    def open(self, folder: Path) -> None:
        import wandb

        self.wandb = wandb
        project, mode = os.environ.get("WANDB_PROJECT", "glassformer"), os.environ.get("WANDB_MODE", "offline")
        name = self.trial or folder.resolve().name
        self.writer = wandb.init(project=project, name=name, group=self.group, dir=str(folder), mode=mode)  # type: ignore[arg-type]
        if self.training.run is not None and self.trial != "verdicts":
            self.writer.config.update(self.training.run.recipe.to_dict())

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self.writer.log(dict(values), step=step)

    def text(self, step: int, name: str, text: str) -> None:
        self.writer.log({name: self.wandb.Table(columns=["step", "text"], data=[[step, text]])}, step=step)

    def figure(self, step: int, name: str, figure: Figure) -> None:
        from PIL import Image

        from glassformer.figures.save import to_bytes

        picture = Image.open(io.BytesIO(to_bytes(figure, ".png")))  # wandb knows matplotlib's own class only
        self.writer.log({name: self.wandb.Image(picture)}, step=step)

    def close(self, settings: Mapping[str, Any]) -> None:
        self.writer.finish()


@final
class CsvLogger(_Logger):
    """RUN/metrics.csv, a row per record; of a study, STUDY/values.csv, a row per trial. Pictures and texts are left out."""

    scalars_only = True

    def open(self, folder: Path) -> None:
        """A resumed run goes on after the rows of its checkpoint."""
        self.file, self.columns = folder / "metrics.csv", list[str]()
        done = self.training.step
        if done and self.file.is_file():
            with self.file.open(encoding="utf-8", newline="") as stream:
                reader = csv.DictReader(stream)
                self._write([row for row in reader if int(row["step"]) <= done], list(reader.fieldnames or ()))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        row = {"step": step, **values}
        if new := [name for name in row if name not in self.columns]:
            before: list[dict[str, Any]] = []
            if self.columns:
                with self.file.open(encoding="utf-8", newline="") as stream:
                    before = list(csv.DictReader(stream))
            self._write([*before, row], [*self.columns, *new])
            return
        with self.file.open("a", encoding="utf-8", newline="") as stream:
            csv.DictWriter(stream, self.columns, lineterminator="\n").writerow(row)

    def _write(self, rows: Sequence[Mapping[str, Any]], columns: list[str]) -> None:
        self.columns = columns
        write_atomically(self.file, csv_text(rows, columns))

    def on_study(self, study: Any) -> None:
        write_atomically(study.folder / "values.csv", csv_text(study.rows_by_seed()))


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a record; a class that a classifier has collapsed to is no figure."""
    numbers = {name: value for name, value in record.items() if isinstance(value, int | float) and name != "step"}
    return {name: float(value) for name, value in numbers.items() if not name.endswith(COLLAPSED_TO)}
