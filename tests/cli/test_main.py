"""The command itself: help without torch, exit codes, one sentence per mistake, flags that stand anywhere."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib import metadata

import pytest

from glassformer.cli import main
from glassformer.data.config import DataConfig
from glassformer.foundation.errors import CheckFailed, ConfigError, DataError, Diverged, Interrupted
from glassformer.model.config import ModelConfig
from glassformer.networks.pretrained_encoder import PretrainedConfig
from glassformer.training.config import EvaluationConfig, TrainingConfig

CONTRACT = ("demo", "recipes", "data", "train", "evaluate", "runs", "generate", "check", "report", "tokenizer", "byhand")


def test_help_lists_every_verb(cli) -> None:
    answer = cli("--help")
    assert answer.code == 0
    for verb in (*CONTRACT, "verify-resume"):
        assert f" {verb} " in answer.out
    assert cli("-h").out == answer.out
    assert cli().code in (0, 2)  # nothing asked: the help


@pytest.mark.parametrize("verb", [*main.VERBS, *main.GROUPS])
def test_every_verb_has_help(cli, verb: str) -> None:
    answer = cli(main.word_of(verb), "--help")
    assert answer.code == 0
    assert "Usage: glassformer" in answer.out


def test_a_setting_given_as_an_option_points_to_set(cli) -> None:
    assert "It is a key of the recipe: --set training.lr=VALUE." in cli("train", "docstrings-char", "--lr", "1").err
    assert "--set model.width=VALUE" in cli("train", "docstrings-char", "--width", "1").err
    assert "--set training.lr=VALUE" in cli("train", "docstrings-char", "--learning-rate", "1").err
    assert "--set training.steps=100" in cli("train", "docstrings-char", "--epsilon", "1").err
    assert "--set" not in cli("generate", "runs/none", "--lr", "1").err


@pytest.mark.parametrize(
    "words", [("byhand", "attend", "--scale"), ("train", "docstrings-char", "--out"), ("generate", "runs/none", "--seed")]
)
def test_an_option_without_its_value(cli, words: tuple[str, ...]) -> None:
    said = cli(*words)
    assert said.code == 2
    assert f"Option '{words[-1]}' requires an argument" in said.err


def test_every_option_people_try_is_a_key() -> None:
    for section, keys in main.OFTEN_TYPED.items():
        known = {"data": DataConfig, "model": None, "training": TrainingConfig, "evaluation": EvaluationConfig}[section]
        fields = {*ModelConfig.model_fields, *PretrainedConfig.model_fields} if known is None else {*known.model_fields}
        assert set(keys) <= fields, section


def test_the_list_of_commands_is_not_cut(cli) -> None:
    """One line of 80 columns for each, with no dots in place of the end."""
    for words in ([], ["atlas"], ["bench"], ["data"], ["study"], ["tokenizer"]):
        assert "...\n" not in cli(*words, "--help").out.partition("Commands:")[2], words


def test_every_reading_verb_has_json(cli) -> None:
    for verb in main.VERBS:
        assert "--json" in cli(main.word_of(verb), "--help").out, verb


def test_help_and_version_import_no_torch() -> None:
    program = (
        "import sys\nfrom glassformer.cli.main import run\n"
        "for words in (['--help'], ['--version'], ['train', '--help'], ['runs', '.'], ['nonsense']):\n    run(words)\n"
        "heavy = {'torch', 'matplotlib', 'numpy.random', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if 'torch' in heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["trian", "x"], "No such command 'trian'"),
        (["train"], "Missing argument 'RECIPE'"),
        (["train", "x", "--stes", "5"], "--stes"),
        (["train", "x", "--seed", "five"], "--seed"),
        (["generate", "x", "--top-k", "0"], "--top-k"),
        (["evaluate", "x", "--split", "dev"], "'dev'"),
    ],
)
def test_wrong_words_and_flags_are_2(cli, words: list[str], hint: str) -> None:
    answer = cli(*words)
    assert answer.code == 2
    assert hint in answer.err
    assert answer.out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("a rule"), 2),
        (DataError("a rule"), 1),
        (CheckFailed("a rule"), 3),
        (Diverged("a rule"), 4),
        (Interrupted("a rule", signal_number=2), 130),
        (Interrupted("a rule", signal_number=15), 143),
        (ZeroDivisionError("a rule"), 1),
    ],
)
def test_every_error_is_one_sentence_and_its_code(cli, monkeypatch, error: Exception, code: int) -> None:
    def fail(folder: object) -> None:
        raise error

    monkeypatch.setattr("glassformer.runs.overview.overview", fail)
    answer = cli("runs")
    assert answer.code == code
    assert "a rule" in answer.sentence
    assert answer.out == ""


def test_a_fault_of_ours_says_so_and_debug_shows_where(cli, monkeypatch) -> None:
    monkeypatch.setattr("glassformer.runs.overview.overview", lambda folder: 1 / 0)
    assert (
        "Unexpected ZeroDivisionError: division by zero (a bug in Glassformer; --debug shows the traceback)"
        in cli("runs").sentence
    )
    answer = cli("runs", "--debug")
    assert answer.code == 1
    assert "Traceback" in answer.err


def test_ctrl_c_is_130(cli, monkeypatch) -> None:
    def interrupt(folder: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("glassformer.runs.overview.overview", interrupt)
    answer = cli("runs")
    assert answer.code == 130
    assert "Traceback" not in answer.err


def test_flags_that_stand_anywhere() -> None:
    for words in (["--quiet", "runs", "x"], ["runs", "--quiet", "x"], ["runs", "x", "--quiet"]):
        assert main._take_common_flags(words) == ["runs", "x"]
        assert main.SETTINGS.quiet
    assert main._take_common_flags(["generate", "x", "--", "--quiet"]) == ["generate", "x", "--", "--quiet"]
    assert not main.SETTINGS.quiet


def test_a_reader_that_goes_away_is_no_traceback(trained) -> None:
    """``glassformer recipes | head -1``."""
    command = f"{sys.executable} -m glassformer recipes | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_the_version(cli) -> None:
    answer = cli("--version")
    assert answer.code == 0
    first, python, torch, *machine = answer.out.strip().splitlines()
    assert re.fullmatch(r"glassformer \S+( \(commit [0-9a-f]{7,}(-dirty)?\))?", first)
    assert (python, torch) == (f"Python {platform.python_version()}", f"torch {metadata.version('torch')}")
    assert len(machine) >= 2


def test_main_ends_the_process_with_the_code(capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main.main(["runs", "/no/such/folder"])
    assert caught.value.code == 1


HANDLER = """
import atexit
from glassformer.cli.main import main
atexit.register(print, "handler ran")
print("not flushed yet", end=" ")
main()
"""


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["runs", "/no/such/folder"], 1)])
def test_the_command_ends_at_once_but_runs_exit_handlers_and_flushes(words: list[str], code: int) -> None:
    """What an ordinary exit does is done, but torch's modules are not destroyed one by one."""
    ended = subprocess.run([sys.executable, "-c", HANDLER, *words], capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == code
    assert ended.stdout.startswith("not flushed yet")
    assert ended.stdout.endswith("handler ran\n")


@pytest.mark.parametrize(
    ("typed", "offered"), [("glassformer tr", "train\ntranslate"), ("glassformer train --al", "--allow-leaks")]
)
def test_a_shell_completes_commands_and_options(typed: str, offered: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_GLASSFORMER_COMPLETE": "complete_bash"}
    command = [sys.executable, "-m", "glassformer"]
    done = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == offered
