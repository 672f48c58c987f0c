"""The tree of errors: exit codes of the contract, sentences with the nearest name."""

from __future__ import annotations

import signal

import pytest

from glassformer.foundation import errors
from glassformer.foundation.errors import (
    BadArgument,
    CheckFailed,
    ConfigError,
    DamagedCheckpoint,
    DataError,
    DiskFull,
    Diverged,
    GlassformerError,
    Interrupted,
    MissingDependency,
    OutOfMemory,
    RunError,
    UnknownName,
    UsageError,
    did_you_mean,
    exit_code_of,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (BadArgument("top_p", 2.0, "it must be at most 1"), 2),
        (ConfigError("x"), 2),
        (UnknownName("model.mixer", "dto", ["dot"]), 2),
        (DataError("x"), 1),
        (RunError("x"), 1),
        (DamagedCheckpoint("x"), 1),
        (DiskFull("x"), 1),
        (OutOfMemory("x"), 1),
        (MissingDependency("x"), 1),
        (CheckFailed("x"), 3),
        (Diverged("x"), 4),
        (Interrupted("x", signal_number=signal.SIGINT), 130),
        (Interrupted("x", signal_number=signal.SIGTERM), 143),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("a fault of ours"), 1),
    ],
)
def test_exit_codes_of_the_contract(error: BaseException, code: int) -> None:
    assert exit_code_of(error) == code


def test_one_tree() -> None:
    own = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(own) >= 13
    assert all(issubclass(kind, GlassformerError) for kind in own)


def test_a_data_error_says_the_file_and_the_line() -> None:
    assert str(DataError("is empty.")) == "is empty."
    assert str(DataError("is empty.", file="a.txt")) == "a.txt: is empty."
    assert str(DataError("has a NUL byte.", file="a.txt", line=7)) == "a.txt, line 7: has a NUL byte."


def test_a_bad_argument_is_named_as_it_was_given() -> None:
    error = BadArgument("top_p", 2.0, "it must be at most 1")
    assert str(error) == "top_p=2.0 cannot be used: it must be at most 1."
    assert error.on_command_line == "--top-p 2.0 cannot be used: it must be at most 1."
    assert BadArgument("stop", "", "it is empty").on_command_line == "--stop '' cannot be used: it is empty."


def test_an_unknown_name_offers_the_nearest() -> None:
    error = UnknownName("model.norm", "layr", {"none", "rms", "layer"})
    assert str(error) == "model.norm has no 'layr'. Did you mean 'layer'? Known: layer, none, rms."
    assert error.known == ["layer", "none", "rms"]


def test_a_name_of_the_papers_offers_ours() -> None:
    assert did_you_mean("RoPE", ["none", "rotary"]) == " Did you mean 'rotary'?"
    assert did_you_mean("rope", ["layer", "rms"]) == ""


def test_nothing_near_is_not_guessed() -> None:
    assert did_you_mean("zzzz", ["layer", "rms"]) == ""
