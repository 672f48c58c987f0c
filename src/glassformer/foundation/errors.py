"""One tree of errors: what can go wrong for a user, each with the exit code the command line ends with.

A message is one sentence (or two) that names the field or file, the value, the rule and the remedy. Programming
mistakes of ours are ``assert``, never one of these.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable
from pathlib import Path


class GlassformerError(Exception):
    """Anything a user can meet. ``exit_code`` is what the command line ends with.

    ``reason``: a short code that programs and tests compare, such as "heads-do-not-divide-width"; sentences may be reworded.
    """

    exit_code = 1

    def __init__(self, message: str = "", *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class UsageError(GlassformerError):
    """The command or one of its flags is wrong."""

    exit_code = 2


class BadArgument(UsageError):
    """A value that one argument does not take. Python names the argument (``top_p=2``), the command line its option."""

    def __init__(self, argument: str, value: object, rule: str, *, reason: str = "") -> None:
        self.argument, self.value, self.rule = argument, value, rule
        super().__init__(f"{argument}={value!r} cannot be used: {rule}.", reason=reason or f"bad-{argument}")

    @property
    def on_command_line(self) -> str:
        """The same sentence for who typed ``--top-p 2``."""
        return f"--{self.argument.replace('_', '-')} {shlex.quote(str(self.value))} cannot be used: {self.rule}."


class ConfigError(GlassformerError):
    """A recipe, a plan or a setting is wrong. Raised before anything starts."""

    exit_code = 2


class UnknownName(ConfigError):
    """A name that nothing answers to; offers the nearest one that exists.

    ``what``: the list it is not in, or with ``whole`` the whole first sentence. ``else_try``: a remedy where no name is near.
    """

    def __init__(self, what: str, name: str, known: Iterable[str], *, whole: bool = False, else_try: str = "") -> None:
        names = sorted(known)
        self.name, self.known = name, names
        near = did_you_mean(name, names)
        remedy = f" {else_try}" if else_try and not near else ""
        first = what if whole else f"{what} has no {name!r}."
        super().__init__(f"{first}{near} Known: {', '.join(names)}.{remedy}", reason="unknown-name")


class DataError(GlassformerError):
    """A text, a table or a token file cannot be used. Says the file and, where there is one, the line."""

    def __init__(self, message: str, *, file: str | Path | None = None, line: int | None = None, reason: str = "") -> None:
        self.file, self.line = file, line
        where = "" if file is None else (f"{file}: " if line is None else f"{file}, line {line}: ")
        super().__init__(where + message, reason=reason)


class RunError(GlassformerError):
    """A run folder, or a file in it, is missing, used, or damaged."""


class RunInUse(RunError):
    """Another process trains in this folder."""


class DamagedCheckpoint(RunError):
    """Bytes of a checkpoint are not the bytes that were written."""


class OptimizerDamaged(DamagedCheckpoint):
    """A checkpoint's optimizer file alone is missing or damaged: enough to read the run, not to train on."""


class DiskFull(RunError):
    """There is no room to write; what was durable before stays."""


class OutOfMemory(GlassformerError):
    """The model or batch does not fit; the message says what to change."""


class MissingDependency(GlassformerError):
    """An optional package is needed; the message says which extra installs it."""


class CheckFailed(GlassformerError):
    """A law is broken by the actual model, so no figure is printed.

    ``only_differs``: nothing is seen that should not be; a fast path gives other numbers than the plain one.
    """

    exit_code = 3

    def __init__(self, message: str, *, only_differs: bool = False, reason: str = "") -> None:
        super().__init__(message, reason=reason)
        self.only_differs = only_differs


class CannotTell(GlassformerError):
    """A law that applies could not be judged: nothing is known to be wrong, nor to be right."""


class Diverged(GlassformerError):
    """The loss is not a finite number any more."""

    exit_code = 4


class Interrupted(GlassformerError):
    """A signal ended the run after the current step was saved. ``exit_code`` is 130 or 143."""

    def __init__(self, message: str, *, signal_number: int) -> None:
        super().__init__(message, reason="interrupted")
        self.signal_number, self.exit_code = signal_number, 128 + signal_number


class OtherProcessFailed(GlassformerError):
    """Another process of this run failed and says why: this one ends with the same exit code and prints nothing."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message, reason="other-process-failed")
        self.exit_code = code


VARIANT_SYNONYMS = {
    "rope": "rotary",
    "rmsnorm": "rms",
    "layernorm": "layer",
    "adam": "adamw",
    "softmax": "dot",
    "attention": "dot",
    "mha": "dot",
    "gqa": "grouped",
    "mqa": "grouped",
    "mla": "latent",
    "retnet": "retention",
    "deltanet": "gated_delta",
    "mamba": "mamba2",
    "ssmax": "scalable",
    "off-by-one": "sink",
    "qk-norm": "rms",
    "swiglu": "gated",
    "wsd": "warmup-stable-decay",
    "mlm": "masked",
    "lm": "next-token",
    "classification": "labels",
    "relative": "t5",
    "absolute": "learned",
}
"""What the papers and other libraries call some of our variants."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` with a leading space, or nothing when no known name is near."""
    known = list(known)
    if (ours := VARIANT_SYNONYMS.get(name.lower())) in known:
        return f" Did you mean {ours!r}?"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def is_panic(error: BaseException) -> bool:
    """Whether an extension written in Rust gave up: its error is no ``Exception``, and has no class to import."""
    return type(error).__module__ == "pyo3_runtime"


def exit_code_of(error: BaseException) -> int:
    """The exit code the command line gives for ``error``."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    return error.exit_code if isinstance(error, GlassformerError) else 1
