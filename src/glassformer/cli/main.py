"""The command ``glassformer``: mounts the verbs, turns errors into one sentence and an exit code. Imports no torch."""

from __future__ import annotations

import atexit
import errno
import functools
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import typer
from typer import Option

from glassformer.cli.console import SETTINGS, err
from glassformer.foundation.errors import BadArgument, GlassformerError, OtherProcessFailed, exit_code_of, is_panic
from glassformer.foundation.plugins import fault_in_plugin

VERBS = (
    "demo",
    "recipes",
    "train",
    "evaluate",
    "generate",
    "ask",
    "predict",
    "translate",
    "look",
    "runs",
    "report",
    "serve",
    "compare",
    "byhand",
    "course",
    "check",
    "verify_resume",
    "export",
    "import_",
)
"""Modules of this package that each define one ``command``."""

GROUPS: tuple[str, ...] = ("atlas", "bench", "data", "study", "tokenizer")
"""Modules that define a typer ``app`` with verbs of its own."""

UsageMistake: type[Any] = typer.BadParameter.__mro__[2]
"""The base of typer's errors about wrong arguments, which has no public name."""

app = typer.Typer(
    name="glassformer",
    help="Change one thing in a Transformer, and know whether it mattered.",
    epilog="Every command takes --quiet (results only) and --debug (tracebacks). Exit codes: 0 success; 1 data, files or "
    "run time; 2 wrong command, option or recipe; 3 a check failed; 4 training diverged; 130, 143 stopped by a signal.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(version: bool = Option(False, "--version", help="Print versions, commit and device.", is_eager=True)) -> None:
    if version:
        from glassformer.foundation.machine import about

        typer.echo(about())
        raise typer.Exit


def word_of(module: str) -> str:
    """The command of a module: ``verify_resume`` -> verify-resume, ``import_`` (``import`` is a Python keyword) -> import."""
    return module.rstrip("_").replace("_", "-")


for _name in VERBS:
    app.command(word_of(_name))(importlib.import_module(f"glassformer.cli.{_name}").command)
for _name in GROUPS:
    app.add_typer(importlib.import_module(f"glassformer.cli.{_name}").app, name=_name)


def main(arguments: Sequence[str] | None = None) -> None:
    for stream in (sys.stdout, sys.stderr):  # a character that the terminal lacks is shown as its code
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if arguments is not None:
        sys.exit(run(arguments))
    _exit_at_once(run(sys.argv[1:]))


def _exit_at_once(code: int) -> NoReturn:
    """Ends the process without destroying torch's modules one by one, which takes a third of a second.

    Exit handlers run and streams are flushed, as in an ordinary exit.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # its reader went away, or it is closed
            stream.flush()
    os._exit(code)


@functools.cache
def _command() -> Any:
    """What typer makes of the verbs: 0.05 s, and a program may run many commands."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Runs one command; gives the exit code."""
    SETTINGS.words = tuple(arguments)
    words = _take_common_flags(list(arguments))
    try:
        result = _command()(args=words, prog_name="glassformer", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except typer.Exit as stop:
        return int(stop.exit_code)
    except UsageMistake as error:
        if hint := _recipe_key_hint(error):
            error.message, error.possibilities = f"{error.message.rstrip('.')}. {hint}", None
        elif sentence := _value_and_rule(error):
            error.message = sentence
        error.show()
        return error.exit_code
    except typer.Abort:
        return 130
    except BrokenPipeError:  # the reader (head, less) went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except BadArgument as error:
        return _end_with(error.on_command_line, exit_code_of(error))
    except OtherProcessFailed as error:
        return error.exit_code
    except (GlassformerError, KeyboardInterrupt) as error:
        return _end_with(str(error) or "Stopped.", exit_code_of(error))
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return _end_with(_describe(error), 1)


def _recipe_key_hint(error: Any) -> str | None:
    """A hint for those who type --lr or --steps, which are keys of a recipe."""
    command = getattr(getattr(error, "ctx", None), "command", None)  # an option without its value comes without a context
    takes_set = any("--set" in option.opts for option in getattr(command, "params", None) or ())
    if not hasattr(error, "option_name") or not takes_set:
        return None
    name = str(error.option_name).lstrip("-").replace("-", "_")
    name = {"learning_rate": "lr", "rate": "lr", "batch": "batch_size", "max_steps": "steps"}.get(name, name)
    section = next((section for section, keys in OFTEN_TYPED.items() if name in keys), None)
    if section is not None:
        return f"It is a key of the recipe: --set {section}.{name}=VALUE."
    return "Settings of a recipe are changed with --set, for example --set training.steps=100 (docs/recipes.md has every key)."


def _value_and_rule(error: Any) -> str | None:
    """Typer names the option and the rule of a refused value (pydantic's); a user wants to see the value too."""
    if not hasattr(error.__cause__, "errors"):
        return None
    problem = error.__cause__.errors()[0]
    rule = str(problem["msg"]).removeprefix("Value error, ").rstrip(".")
    if problem["type"] == "value_error":  # a sentence of ours, which has the value
        return f"{rule}."
    return f"{problem['input']} is not accepted: {rule[0].lower()}{rule[1:]}."


OFTEN_TYPED = {
    "training": ["steps", "epochs", "batch_size", "lr", "optimizer", "schedule", "weight_decay", "precision", "device"],
    "model": ["width", "layers", "heads", "context", "dropout", "mixer", "positions", "norm", "folder", "tuning"],
    "data": ["text_column", "label_column", "path", "validation", "test"],
    "evaluation": ["every", "by"],
}
"""Keys that people try as options, by the section of the recipe."""


def _describe(error: BaseException) -> str:
    """A sentence about an unexpected error: of a user's plugin, of the machine, or ours."""
    place = fault_in_plugin(error)
    if place is not None:
        return f"{place} (in your plugin; --debug shows the traceback)."
    if isinstance(error, UnicodeError):
        return f"Text could not be read or written ({error}); use UTF-8 text, and set PYTHONUTF8=1 if the terminal is not."
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}; {_REMEDIES.get(error.errno or 0, 'check the path and the disk it is on')}."
    return f"Unexpected {type(error).__name__}: {error} (a bug in Glassformer; --debug shows the traceback)."


_REMEDIES = {
    errno.EACCES: "permission denied: choose another place with --out, or change the permissions",
    errno.EPERM: "permission denied: choose another place with --out, or change the permissions",
    errno.EROFS: "that disk is read-only: choose another place with --out",
    errno.ENOENT: "it does not exist (or a link is broken): check the path",
    errno.ENOTDIR: "part of this path is a file, not a folder: check the path",
    errno.EISDIR: "it is a folder, not a file: check the path",
    errno.EEXIST: "it exists and is not a folder: choose another place with --out",
    errno.ENOSPC: "the disk is full: make room, or choose another disk with --out",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter one",
    errno.ELOOP: "its links form a loop: check the path",
}


def _end_with(sentence: str, code: int) -> int:
    if SETTINGS.debug:
        traceback.print_exc()
    err().print(f"Error: {sentence}", style="red")
    return code


def _take_common_flags(words: list[str]) -> list[str]:
    """--quiet and --debug may stand anywhere (before ``--``)."""
    end = words.index("--") if "--" in words else len(words)
    head, tail = words[:end], words[end:]
    SETTINGS.quiet, SETTINGS.debug = "--quiet" in head, "--debug" in head
    return [word for word in head if word not in ("--quiet", "--debug")] + tail
