"""Fixtures for all tests: one thread, no writing into the user's cache, real data only when it is there."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.encoders import make_folder

# A loaded machine must not fail a test: no time limit per example. Derandomised, so that a red run is red again.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # many small tests in parallel: more threads only wait for each other
os.environ.setdefault("MPLBACKEND", "agg")
os.fsync = lambda descriptor: None  # type: ignore[assignment]  # no test cuts the power, and it takes half the time of a tiny run

# A shell starts background jobs with Ctrl-C ignored (`nohup make test &`), and processes hand that on: tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

WITH_TRITON = "To run them: `pip install triton`, then `pytest tests/model/kernels tests/generation/cuda` (minutes)."
WITHOUT_TRITON = "needs the package triton (which torch for CUDA brings; on a CPU its interpreter runs the kernels)"


def pytest_runtest_logreport(report: Any) -> None:
    """With GLASSFORMER_TESTS_AT_ONCE, says what failed when it fails: a run on a lent GPU may be ended before its summary."""
    if report.failed and os.environ.get("GLASSFORMER_TESTS_AT_ONCE") and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid}: {str(report.longrepr).strip().splitlines()[-1]}", file=sys.stderr, flush=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says how many kernel tests were skipped, and how to run them."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if WITHOUT_TRITON in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} kernel tests skipped: each {WITHOUT_TRITON}. {WITH_TRITON}")


@pytest.fixture(autouse=True, scope="session")
def _away_from_the_clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """Tests start in an empty folder: what `make demo` or a user left in the clone (demo/, runs/, studies/) is not seen.

    Gives names for further folders. (pytest's ``mktemp`` lists all earlier folders, which takes seconds after thousands.)
    """
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    folders = tmp_path_factory.mktemp("here")
    yield (folders / str(number) for number in itertools.count())
    os.chdir(before)


@pytest.fixture(autouse=True)
def _empty_folder(_away_from_the_clone: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test in an empty folder of its own: what one test leaves is not seen by the next."""
    folder = next(_away_from_the_clone)
    folder.mkdir()
    monkeypatch.chdir(folder)


@pytest.fixture(autouse=True)
def _empty_ledger(_private_cache: Path) -> Iterator[None]:
    """No test's study is an earlier study of another test's question."""
    yield
    shutil.rmtree(_private_cache / "ledger", ignore_errors=True)  # not the variable's folder: a test may have changed it


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    os.environ["GLASSFORMER_CACHE"] = str(folder)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _own_plugins() -> Iterator[None]:
    """Plugins that a module's tests loaded into this process are gone for the next module."""
    from glassformer.foundation import plugins
    from glassformer.foundation.registry import Slot

    before = dict(plugins._loaded)
    yield
    plugins._loaded.clear()
    plugins._loaded.update(before)
    for slot in Slot.every.values():
        foreign = [name for name, variant in slot._variants.items() if variant.__module__.startswith("glassformer_plugin_")]
        for name in foreign:
            del slot._variants[name]


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets; skips with the reason when it is not there."""
    folder = os.environ.get("GLASSFORMER_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("GLASSFORMER_DATA is not set to a folder of real data sets")
    return Path(folder)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of one MiB (a tmpfs); skips where the tests may not mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 120 short lines, each a document, that a tiny model can learn a little of."""
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "ran", "to", "see", "an", "old", "red", "hen"]
    lines = [" ".join(words[(7 * line + 3 * place) % len(words)] for place in range(4 + line % 5)) for line in range(120)]
    file = tmp_path_factory.mktemp("text") / "tiny.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def tiny(tiny_text: Path) -> dict[str, Any]:
    """A whole recipe that trains in a blink: dropout and pieces of batches included."""
    return {
        "data": {"path": str(tiny_text), "document": "line", "split": {"validation": 0.2, "test": 0.1}},
        "model": {"width": 8, "heads": 2, "layers": 1, "context": 16, "dropout": 0.1},
        "training": {"steps": 6, "batch_size": 4, "accumulate": 2, "lr": 0.01, "device": "cpu", "precision": "float32"},
        "evaluation": {"every": 3},
        "checkpoint": {"every": 2},
        "seed": 3,
    }


@pytest.fixture
def tiny_file(tiny: dict[str, Any], tmp_path: Path) -> Path:
    """The same as a file."""
    from glassformer.foundation.yaml_text import dump_yaml

    file = tmp_path / "tiny.yaml"
    file.write_text(dump_yaml(tiny), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def trained(tiny_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one finished tiny run, shared: copy it before changing anything in it."""
    from glassformer.experiment import train

    recipe = {
        "data": {"path": str(tiny_text), "document": "line", "split": {"validation": 0.2, "test": 0.1}},
        "model": {"width": 12, "heads": 2, "layers": 1, "context": 16},
        "training": {"steps": 12, "batch_size": 6, "lr": 0.02, "device": "cpu"},
        "evaluation": {"every": 4},
        "checkpoint": {"every": 4, "keep": 3, "best": True},
        "seed": 5,
    }
    return train(recipe, out=tmp_path_factory.mktemp("trained") / "run").folder


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains and evaluates without the checks of the laws, which take longer than a tiny run; they have tests of their own."""
    from glassformer.checks.check_report import CheckReport

    passed = CheckReport(subject="a tiny model")
    for module in ("experiment", "run"):
        monkeypatch.setattr(f"glassformer.{module}.require_network", lambda model, **options: passed)


@pytest.fixture
def run_with_kernels():
    """Runs a program in a process of its own, since Triton decides at import whether it interprets; gives its complaint."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip(WITHOUT_TRITON)
    import torch

    def run(program: str, *, interpreted: bool = True) -> str:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        surroundings = os.environ | ({"TRITON_INTERPRET": "1"} if device == "cpu" and interpreted else {})
        start = f"import torch, torch.nn.functional as F\nfrom torch.testing import assert_close\ndevice = {device!r}\n"
        outcome = subprocess.run(
            [sys.executable, "-c", start + program], env=surroundings, capture_output=True, text=True, timeout=300, check=False
        )
        return (outcome.stderr or f"exit code {outcome.returncode}") if outcome.returncode else ""  # a crash says nothing

    return run


@pytest.fixture(scope="session")
def loud_model():
    """Makes models whose weights are large enough that the next token depends on what stands before it."""
    import torch

    from glassformer.model.config import ModelConfig
    from glassformer.model.transformer import build_model

    def make(vocabulary: int, *, seed: int = 1, times: float = 8.0, **config):
        model = build_model(ModelConfig(layers=2, **config), vocabulary, seed=seed).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(times)
        return model.requires_grad_(False)

    return make


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny BERT."""
    return make_folder(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def roberta_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny RoBERTa."""
    return make_folder(tmp_path_factory.mktemp("roberta"), "roberta")
