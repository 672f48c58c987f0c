"""A study small enough for tests: a text that a tiny model learns in a second, and a recipe for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.study.conducted import MakesUp, Said

from glassformer.evaluation.language_metrics import DocumentLosses, language_outcomes
from glassformer.evaluation.results import Evaluation
from glassformer.foundation.config import override
from glassformer.foundation.files import write_json
from glassformer.foundation.metrics import BITS_PER_BYTE, LOSS
from glassformer.recipe import load_recipe
from glassformer.runs.directory import RunDirectory
from glassformer.runs.records import MetricsLog
from glassformer.study.directory import StudyDirectory
from glassformer.study.planning.plan import StudyPlan
from glassformer.study.planning.variant_facts import Facts, VariantBook
from glassformer.study.running.execution import Execution
from glassformer.study.running.study_runner import StudyRunner
from glassformer.study.running.trial_store import TrialStore
from glassformer.study.several_studies import SetStudy
from glassformer.study.study import Study

LETTERS = "abcdefgh"


def markov_text(lines: int = 90, length: int = 31, seed: int = 3) -> str:
    """Lines in which the next letter mostly follows from the one before: far below a unigram's loss within some steps."""
    chance = random.Random(seed)
    follows = {letter: LETTERS[(3 * index + 1) % len(LETTERS)] for index, letter in enumerate(LETTERS)}
    rows = []
    for _ in range(lines):
        row = [chance.choice(LETTERS)]
        while len(row) < length:
            row.append(follows[row[-1]] if chance.random() < 0.85 else chance.choice(LETTERS))
        rows.append("".join(row))
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "letters.txt"
    file.write_text(markov_text(), encoding="utf-8")
    return file


@pytest.fixture
def recipe(text_file: Path) -> dict[str, Any]:
    """Plain values of a recipe whose runs take about a second."""
    return {
        "data": {"path": str(text_file), "document": "line"},
        "tokenizer": "char",
        "model": {"width": 12, "layers": 1, "heads": 3, "context": 7},
        "training": {"steps": 24, "batch_size": 10, "lr": 0.03, "device": "cpu"},
        "evaluation": {"every": 12},
        "checkpoint": {"every": 12},
    }


BASELINES = {"uniform": 2.3, "unigram": 2.2, "bigram": 1.6, "untrained": 2.35}


@dataclass
class MadeUp:
    """Writes what a finished run leaves behind, with losses of our own, so that no model is needed."""

    tokens: np.ndarray = field(default_factory=lambda: np.array([5, 3, 8, 4, 0, 6]))

    def losses(self, values: np.ndarray) -> DocumentLosses:
        """``values``: nats per token of each document."""
        return DocumentLosses(
            nats=values * self.tokens,
            tokens=self.tokens,
            bytes=2.0 * self.tokens,
            words=1.0 * self.tokens,
            characters=1.0 * self.tokens,
            unknown=0 * self.tokens,
            documents=len(self.tokens),
        )

    def evaluation(self, values: np.ndarray, *, tainted: str | None = None) -> Evaluation:
        baselines = {
            name: language_outcomes(self.losses(np.full(len(self.tokens), level))) for name, level in BASELINES.items()
        }
        return Evaluation.of(
            "validation",
            language_outcomes(self.losses(values)),
            baselines,
            metrics=(LOSS, BITS_PER_BYTE),
            trivial=("uniform", "unigram", "untrained"),
            step=24,
            tainted=tainted,
        )

    def run(
        self,
        folder: Path,
        recipe: dict[str, Any],
        values: np.ndarray | float = 1.0,
        *,
        status: str = "finished",
        validation: tuple[float, ...] = (1.9, 1.2),
        evaluated: bool = True,
        tainted: str | None = None,
        **environment: Any,
    ) -> RunDirectory:
        run = RunDirectory(folder)
        run.write_environment({"threads": 1, "torch": "9.9", "data": {"source": "letters", "sha256": "ab"}, **environment})
        run.write_recipe(recipe)
        run.write_state(status, step=24, steps=24, reason="made up")
        log = MetricsLog(run.metrics_file)
        for step, loss in zip((12, 24), validation):
            log.append({"step": step, "validation_loss": loss, "seconds": 2.0, "tokens_per_second": 840.0})
        run.checkpoint(24).mkdir(parents=True, exist_ok=True)
        if evaluated:
            row = np.broadcast_to(np.asarray(values, dtype=np.float64), self.tokens.shape)
            result = self.evaluation(row, tainted=tainted)
            write_json(run.evaluation_file("validation", 24), {"schema": 1, **result.to_file_dict()})
        return run

    def study(
        self,
        folder: Path,
        losses: dict[str, list[float | None]],
        *,
        leaks: dict[str, str] | None = None,
        documents: str = "x",
        **plan: Any,
    ) -> Study:
        """A study in which each variant (base first) reached the losses given, by seed; None is still to come."""
        base = {"data": {"path": "letters.txt"}, "model": {"positions": "learned", "width": 12}, "training": {"lr": 0.1}}
        changes = [{"name": name, "set": {"model.positions": name}} for name in list(losses)[1:]]
        planned = StudyPlan.parse({"base": base, "changes": changes, "seeds": 6, **plan})
        directory = StudyDirectory(folder)
        directory.begin(planned, lambda _: {**base, "training": {"steps": 24}})  # made-up positions have no recipe
        facts = {
            name: Facts(
                "r", "d", documents, 100 + 10 * at, 1000 + at, 24, 1680, 4_000_000, leak=(leaks or {}).get(name), asked=name
            )
            for at, name in enumerate(losses)
        }
        VariantBook(facts).write(directory.variants_file)
        many = MadeUp(np.resize(self.tokens, 600))  # enough of them to rule out rare large losses
        wave = np.sin(np.arange(600.0))  # documents differ, and so do their differences from seed to seed
        for trial in planned.trials():
            row = losses[trial.variant]
            at = trial.seed - planned.first_seed
            loss = row[at] if at < len(row) else None
            if loss is not None:
                values = loss + 0.1 * wave + 0.003 * np.cos(1 + at * wave)
                tainted = (leaks or {}).get(trial.variant)
                many.run(directory.trial(trial), override(base, trial.set), values, tainted=tainted)
        return Study.load(folder)


@pytest.fixture
def made_up() -> MadeUp:
    return MadeUp()


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> SetStudy:
    """Three sets on which both changes help; to be read, not to be damaged."""
    folder, good = tmp_path_factory.mktemp("sets") / "both", [1.0, 1.01, 0.99, 1.0, 1.02, 0.98]
    SetStudy.begin(folder, ["a", "b", "c"])
    for at, name in enumerate(("a", "b", "c")):
        losses = {"base": [one + 0.5 for one in good], "alibi": [one + 0.01 * at for one in good], "none": good[::-1]}
        MadeUp().study(folder / name, losses, documents=name)
    return SetStudy.load(folder)


@pytest.fixture
def conduct(made_up, recipe, tmp_path):
    """Runs a plan of made-up trials; gives the study, the executor and what was said."""

    def conduct(
        loss,
        *changes: str,
        leaks: Sequence[str] = (),
        seconds: float = 3600.0,
        out: str = "study",
        store: TrialStore | None = None,
        baseline: str = "paired",
        **plan: Any,
    ) -> tuple[Study, MakesUp, Said]:
        named = [{"name": name, "set": {"model.positions": name}} for name in changes or ("alibi", "rotary")]
        planned = StudyPlan.parse({"base": recipe, "changes": named, **{"seeds": 6, **plan}})
        directory = StudyDirectory(tmp_path / out)

        def resolve(settings: Any) -> dict[str, Any]:
            return load_recipe(recipe, settings).to_dict()

        planned, _ = directory.begin(planned, resolve)
        executor, said = MakesUp(made_up, loss, leaks, seconds), Said()
        try:
            how = Execution(watch=said, store=store is not None, baseline=baseline)
            study = StudyRunner(planned, directory, resolve, lambda: executor, how).run()
        finally:
            conduct.executor, conduct.said = executor, said
        return study, executor, said

    return conduct


@pytest.fixture
def store(tmp_path, monkeypatch) -> TrialStore:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return TrialStore()
