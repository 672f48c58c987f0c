"""Explorations by name: a decorated function with sizes and a seed -> numbers, a paragraph, a picture.

One exploration is one file of this package; nothing else lists it. ``explore`` checks names and types of the settings.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ParamSpec, final

import numpy as np

from glassformer.byhand.problem import Array
from glassformer.byhand.result import Result, plain
from glassformer.foundation.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")


@dataclass(frozen=True)
class Findings:
    """What the function of an exploration returns.

    ``numbers``: values and arrays; JSON has them as lists. Its figure, ``NAME_figure`` of figures/byhand.py, takes them, and
    what is ``drawn`` besides. ``settings``: those that differ from the ones it was called with.
    """

    numbers: Mapping[str, Any]
    paragraph: str
    drawn: Mapping[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Exploration(Result):
    """Findings with their name and settings."""

    name: str
    question: str
    settings: dict[str, Any]
    findings: Findings

    @cached_property
    def numbers(self) -> dict[str, Any]:
        return plain(self.findings.numbers)

    @property
    def title(self) -> str:
        return f"Attention by hand: {self.question}"

    @property
    def text(self) -> str:
        return self.findings.paragraph

    def to_dict(self) -> dict[str, Any]:
        return {
            "exploration": self.name,
            "question": self.question,
            "settings": dict(self.settings),
            "numbers": self.numbers,
            "text": self.text,
        }

    def figure(self) -> Figure:
        from glassformer.figures import byhand

        draw: Callable[[Mapping[str, Any]], Figure] = getattr(byhand, f"{self.name.replace('-', '_')}_figure")
        return draw({**self.numbers, **self.findings.drawn})


@dataclass(frozen=True)
class Entry:
    """A registered exploration: its name, the question it asks, the function, its settings with their defaults."""

    name: str
    question: str
    function: Callable[..., Exploration]
    settings: dict[str, Any]


_known: dict[str, Entry] = {}


def exploration(name: str, question: str) -> Callable[[Callable[P, Findings]], Callable[P, Exploration]]:
    """Decorator: the function answers to ``name``. Its settings are keyword arguments with defaults."""

    def register(function: Callable[P, Findings]) -> Callable[P, Exploration]:
        defaults = {key: parameter.default for key, parameter in inspect.signature(function).parameters.items()}

        def run(*args: P.args, **settings: P.kwargs) -> Exploration:
            findings = function(*args, **settings)
            return Exploration(name, question, {**defaults, **settings, **findings.settings}, findings)

        _known[name] = Entry(name, question, run, defaults)
        return run

    return register


def all_explorations() -> list[Entry]:
    """Every exploration of this package, by name."""
    package = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")
    return [_known[name] for name in sorted(_known)]


def find(name: str) -> Entry:
    entries = {entry.name: entry for entry in all_explorations()}
    if name not in entries:
        raise UnknownName("byhand", name, entries)
    return entries[name]


def explore(name: str, **settings: Any) -> Exploration:
    """Runs one exploration; settings not given have their defaults."""
    entry = find(name)
    known = entry.settings
    for setting, value in settings.items():
        if setting not in known:
            raise UnknownName(f"exploration {name!r}: settings", setting, known)
        settings[setting] = _fitting(f"{name}.{setting}", value, known[setting])
    return entry.function(**settings)


def _fitting(where: str, value: Any, default: Any) -> Any:
    """The value in the type of the default: a whole number, a number or a word."""
    if isinstance(default, str):
        if isinstance(value, str):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
        if isinstance(default, float):
            return float(value)
        if float(value) == int(value):
            return int(value)
    kind = {str: "a word", int: "a whole number"}.get(type(default), "a number")
    raise ConfigError(f"{where}={value!r} is not {kind}; the default is {default!r}.", reason="wrong-type")


def within(name: str, value: float, low: float, high: float, why: str = "") -> None:
    """Refuses a setting outside its range, with the range."""
    if not low <= value <= high:
        raise ConfigError(
            f"{name}={value:g} must be between {low:g} and {high:g}{'; ' + why if why else ''}.", reason="out-of-range"
        )


def orthonormal_rows(rng: np.random.Generator, n: int, d: int) -> Array:
    """n random rows of length 1 in d dimensions, all at right angles."""
    return np.asarray(np.linalg.qr(rng.normal(size=(d, n)))[0].T)


def unit_rows(rng: np.random.Generator, n: int, d: int) -> Array:
    """n random directions in d dimensions."""
    rows = rng.normal(size=(n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
