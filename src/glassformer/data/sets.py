"""Named data sets: what each is made of, where its files are looked for, and what to do when they are absent.

``docstrings`` is built in. The others are files under GLASSFORMER_DATA; nothing is part of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.data.cache import kept_folder
from glassformer.data.corpus import Source
from glassformer.data.docstrings import docstring_corpus, python_version
from glassformer.foundation.errors import UnknownName
from glassformer.foundation.files import sha256_of_file, sha256_of_text, write_atomically


@dataclass(frozen=True)
class Parts:
    """The sources of a corpus: what to train on, and what it brings along to validate, to test and to learn words from."""

    train: Source
    validation: Source | None = None
    tests: dict[str, Source] = field(default_factory=dict)
    vocabulary: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedSet:
    """``find`` gives the parts, or a sentence on what is missing as a DataError."""

    name: str
    about: str
    find: Callable[[], Parts]


def _docstrings() -> Parts:
    version = python_version()
    key = sha256_of_text(f"{version}/{Path(docstring_corpus.__code__.co_filename).stat().st_mtime_ns}")[:16]
    folder = kept_folder(
        "sets", f"docstrings-{version}-{key}", lambda draft: write_atomically(draft / "docstrings.txt", docstring_corpus())
    )
    file = folder / "docstrings.txt"
    note = (
        f"The docstrings corpus is that of Python {version} (sha256 {sha256_of_file(file)[:12]}); it differs between Python "
        "versions, so figures are only comparable where this fingerprint is the same."
    )
    return Parts(train=Source("docstrings", (file,), document="block"), notes=(note,))


SETS = {
    known.name: known
    for known in (NamedSet("docstrings", "prose of the docstrings of Python's standard library; built in", _docstrings),)
}


def find_set(name: str) -> Parts:
    """The parts of a named set; the files are there when this returns."""
    if name not in SETS:
        raise UnknownName("data.set", name, SETS)
    return SETS[name].find()
