"""A data config -> the files of each split, with sha256 checksums.

Lists files in folders, and copies standard input to a file, so that it can be read twice. Reads no text.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TypeVar

from glassformer.data.config import DataConfig, QuestionsConfig
from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.data.memory_cache import MemoryCache
from glassformer.data.reading.corpus import LabelSource, PairSource, Skipped, Source, Target
from glassformer.data.reading.hub_sets import held_out_splits, is_hub_set, split_file
from glassformer.data.reading.named_sets import SETS, DataSources, LabelSources, PairSources, QuestionFiles, find_set
from glassformer.foundation.errors import ConfigError, DataError, UnknownName
from glassformer.foundation.files import sha256_of_file, sha256_of_text, write_atomically

TEXT_ENDINGS = (".txt", ".text", ".md", ".rst", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
STANDARD_INPUT = "-"

_REMEMBER_ABOVE = 64 << 20  # bytes; checksums of smaller files are not cached
_ROOM_LEFT = 1 << 30  # an endless pipe is stopped before the disk is full
_COPY = 1 << 20


def find_sources(data: DataConfig, *, input_sha256: str | None = None) -> DataSources:
    """The files of a recipe's data. A file in the recipe replaces that of a set.

    ``input_sha256``: of standard input when the run began; a resumed run reads the cached copy.
    """
    data = _with_own_splits(data)
    if data.set is not None:
        found = _as_configured(find_set(data.set), data)
    else:
        assert data.path is not None
        found = DataSources(train=source_at(data.path, data, input_sha256=input_sha256))
        left_out = _left_out(found.train, Path(data.path).expanduser(), data.files)
        found = replace(found, notes=(left_out,) if left_out else ())
    of_labels = found.labelled is not None and data.validation in found.labelled.tests  # says nothing of the plain text
    validation = source_at(data.validation, data) if data.validation and not of_labels else found.validation
    vocabulary = tuple(source_at(path, data) for path in data.vocabulary) or found.vocabulary
    questions = _questions(data.questions) if data.questions else found.questions
    if data.questions and not data.vocabulary:  # signs that only questions have
        assert questions is not None
        vocabulary += (Source(data.questions.train, (questions.train,), format="tsv", text_column=1),)
    return replace(found, validation=validation, tests=_tests(data, found), vocabulary=vocabulary, questions=questions)


def find_label_sources(data: DataConfig, target: Target = "class") -> LabelSources:
    """The labelled files of a recipe's data: those of its set, or its own files with a column of labels."""
    data = _with_own_splits(data)
    found = find_set(data.set).labelled if data.set is not None else None
    if data.set is not None and found is None:
        known = [name for name, each in SETS.items() if getattr(each, "labelled", None) is not None]
        raise ConfigError(
            f"data.set={data.set} has no labels; sets that have: {', '.join(known)}; or give a file as data.path.",
            reason="no-labels",
        )
    if found is not None and target != "class":
        objective = {"several": "multilabel", "number": "regression"}[target]
        raise ConfigError(
            f"objective={objective} does not fit data.set={data.set}, whose texts have one class each; choose objective: "
            "labels, or give a file of your own as data.path.",
            reason="set-has-classes",
        )
    if found is None:
        assert data.path is not None
        found = LabelSources(_label_source_at(data.path, data, target))
    if data.validation and data.validation in found.tests:
        rest = {name: test for name, test in found.tests.items() if name != data.validation}
        found = replace(found, validation=found.tests[data.validation], tests=rest)
    elif data.validation:
        found = replace(found, validation=_label_source_at(data.validation, data, target))
    if data.test and data.test in found.tests:
        return replace(found, tests={data.test: found.tests[data.test]})
    if data.test:
        return replace(found, tests={_test_name(data.test): _label_source_at(data.test, data, target)})
    return found


def _with_own_splits(data: DataConfig) -> DataConfig:
    """A set of Hugging Face brings its own validation and test splits; those of the recipe stand before them."""
    if data.path is None or not is_hub_set(data.path):
        return data
    own = {key: path for key, path in held_out_splits(data.path).items() if getattr(data, key) is None}
    return data.model_copy(update=own)


def _label_source_at(path: str, reading: DataConfig, target: Target) -> LabelSource:
    """A user's own labelled files, read as the recipe's ``data`` section says."""
    return LabelSource(
        name=path,
        files=source_at(path, reading).files,
        format=reading.format,
        text_column=reading.text_column,
        pair_column=reading.pair_column,
        label_column=tuple(several) if isinstance(several := reading.label_column, list) else several,
        skip_bad_lines=reading.bad_lines == "skip",
        target=target,
        separator=reading.label_separator or LabelSource.separator,
    )


def find_pair_sources(data: DataConfig) -> PairSources:
    """The files of a recipe's pairs of texts: those of its set, or its own."""
    data = _with_own_splits(data)
    found = find_set(data.set).pairs if data.set is not None else None
    if data.set is not None and found is None:
        known = [name for name, each in SETS.items() if getattr(each, "pairs", None) is not None]
        raise ConfigError(
            f"data.set={data.set} has no pairs of texts; sets that have: {', '.join(known)}, and {{kind: rewriting}}; or give "
            "files as data.path.",
            reason="no-pairs",
        )
    if found is None:
        assert data.path is not None
        found = PairSources(pair_source_at(data.path, data))
    else:
        found = PairSources(
            _in_direction(found.train, data),
            None if found.validation is None else _in_direction(found.validation, data),
            {name: _in_direction(test, data) for name, test in found.tests.items()},
        )
    if data.validation:
        found = replace(found, validation=pair_source_at(data.validation, data))
    if data.test:
        found = replace(found, tests={"test": pair_source_at(data.test, data)})
    return found


def pair_source_at(path: str, reading: DataConfig) -> PairSource:
    """A user's own pairs: a table, or two parallel files with a comma between them."""
    skip = reading.bad_lines == "skip"
    names = parallel_files(path)
    if names is not None:
        files = tuple(source_at(name, reading).files[0] for name in names)
        return _in_direction(PairSource(path, files, parallel=True, skip_bad_lines=skip), reading)
    files = source_at(path, reading).files
    return PairSource(path, files, False, reading.format, reading.source_column, reading.target_column, skip)


def parallel_files(path: str) -> tuple[str, str] | None:
    """``train.de,train.en`` -> the two names; None for one file, even with a comma in its name."""
    first, comma, second = path.partition(",")
    return (first.strip(), second.strip()) if comma and not Path(path).expanduser().exists() else None


def _in_direction(source: PairSource, data: DataConfig) -> PairSource:
    """The source with its files in the order that the recipe's columns ask for: their endings are their names."""
    chosen = data.source_column, data.target_column
    if not source.parallel or chosen == (None, None):
        return source
    by_ending = {file.suffix.removeprefix("."): file for file in source.files}
    for key, column in zip(("source_column", "target_column"), chosen):
        if column is not None and column not in by_ending:
            raise UnknownName(f"data.{key}", str(column), by_ending)
    endings = list(by_ending)
    first = str(chosen[0]) if chosen[0] is not None else next(one for one in endings if one != chosen[1])
    second = str(chosen[1]) if chosen[1] is not None else next(one for one in endings if one != first)
    if first == second:
        raise ConfigError(
            f"data.source_column and data.target_column are both {first}; choose two of {', '.join(endings)}.",
            reason="same-column",
        )
    return replace(source, files=(by_ending[first], by_ending[second]))


def _questions(named: QuestionsConfig) -> QuestionFiles:
    """The files of a recipe's questions; raises if one is missing."""

    def at(path: str | None) -> Path | None:
        if path is None:
            return None
        place = Path(path).expanduser()
        if not place.is_file():
            raise DataError(
                "does not exist; data.questions names files of question<TAB>answer.", file=place, reason="missing-file"
            )
        return place

    train, test = at(named.train), at(named.test)
    assert train is not None
    tests = {} if test is None else {test.stem: test}
    return QuestionFiles(train, at(named.validation), tests, nowhere=at(named.nowhere))


def places_of(data: DataConfig) -> dict[str, str]:
    """Relative paths of a recipe as absolute ones, so that a run can be resumed from another folder."""
    questions = data.questions.files if data.questions else []
    paths = (data.path, data.validation, data.test, *data.vocabulary, *questions)
    named = [name for path in paths if path and path != STANDARD_INPUT for name in parallel_files(path) or (path,)]
    places = {path: Path(path).expanduser() for path in named}
    return {path: str(place.absolute()) for path, place in places.items() if not place.is_absolute() and place.exists()}


def at_places(data: DataConfig, places: Mapping[str, str]) -> DataConfig:
    """The config with the paths from ``places_of`` that still exist."""

    def place(path: str | None) -> str | None:
        if path is not None and (names := parallel_files(path)) is not None:
            return ",".join(str(place(name)) for name in names)
        noted = places.get(path or "")
        return noted if noted is not None and Path(noted).exists() else path

    moved = {key: place(getattr(data, key)) for key in ("path", "validation", "test")}
    questions = data.questions
    if questions is not None:
        found = {key: place(getattr(questions, key)) for key in ("train", "validation", "test", "nowhere")}
        questions = questions.model_copy(update=found)
    return data.model_copy(update={**moved, "vocabulary": [place(path) for path in data.vocabulary], "questions": questions})


def _as_configured(found: DataSources, data: DataConfig) -> DataSources:
    """The parts of a set, with documents defined by the recipe instead of the set."""
    if data.document is None:
        return found
    validation = replace(found.validation, document=data.document) if found.validation else None
    tests = {name: replace(source, document=data.document) for name, source in found.tests.items()}
    return replace(found, train=replace(found.train, document=data.document), validation=validation, tests=tests)


def _tests(data: DataConfig, found: DataSources) -> dict[str, Source]:
    if data.test is None:
        return found.tests
    if data.test in found.tests:  # data.set: speeches, data.test: obama
        return {data.test: found.tests[data.test]}
    if found.tests and not Path(data.test).expanduser().exists():
        raise UnknownName(f"data.set={data.set} with data.test", data.test, found.tests)
    return {_test_name(data.test): source_at(data.test, data)}


def _test_name(path: str) -> str:
    """A test set is called like its file, or like its split."""
    return path.partition("#")[2] if is_hub_set(path) and "#" in path else Path(path).stem


def source_at(path: str, reading: DataConfig, *, input_sha256: str | None = None) -> Source:
    """The source at a path (a file, a folder, a pipe, or - for standard input), read as ``reading`` says."""
    place = Path(path).expanduser()
    if path == STANDARD_INPUT:
        files = [_standard_input(input_sha256)]
    elif is_hub_set(path):
        files = [split_file(path)]
    elif place.is_dir():
        files = _text_files(place, reading.files)
    elif not place.exists():
        raise DataError("does not exist; check the path.", file=place, reason="missing-file")
    elif stat.S_ISFIFO(place.stat().st_mode):
        with place.open("rb") as pipe:
            files = [_cached_copy(pipe, path)]
    else:
        files = [place]
    return Source(
        name="standard input" if path == STANDARD_INPUT else path,
        files=tuple(files),
        document=reading.document or "file",
        format=reading.format,
        text_column=reading.text_column,
        skip_bad_lines=reading.bad_lines == "skip",
    )


def _text_files(folder: Path, pattern: str | None) -> list[Path]:
    """The files of text under a folder, in the order of their paths; hidden ones and linked folders are not entered."""
    found = [
        file
        for file in _all_files(folder)
        if (file.match(pattern) if pattern else file.name.lower().removesuffix(".gz").endswith(TEXT_ENDINGS))
    ]
    if found:
        return found
    endings = Counter("".join(file.suffixes[-2:]) or "no ending" for file in _all_files(folder))
    there = ", ".join(f"{count} with {ending}" for ending, count in endings.most_common(5)) or "no files at all"
    if pattern:
        raise DataError(
            f"no file in this folder matches data.files={pattern!r} (there are: {there}).",
            file=folder,
            reason="no-file-matches",
        )
    raise DataError(
        f"there is no text in this folder (there are: {there}). Text ends in {', '.join(TEXT_ENDINGS)}, or one of these with "
        ".gz; for other endings set data.files, for example data.files: '*.py'.",
        file=folder,
        reason="no-text-files",
    )


def _all_files(folder: Path) -> list[Path]:
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(root) / name for name in names if not name.startswith(".")]
    return sorted(found)


def _left_out(source: Source, place: Path, pattern: str | None) -> str | None:
    if not place.is_dir() or pattern or is_hub_set(str(place)):
        return None
    others = len(_all_files(place)) - len(source.files)
    if not others:
        return None
    return f"{len(source.files)} files of {place} are read; {others} with other endings are not (data.files chooses by name)."


def _standard_input(sha256: str | None) -> Path:
    if sha256 is None:
        return _cached_copy(sys.stdin.buffer, "standard input")
    copy = cache_folder() / "input" / sha256 / "input"
    if not copy.is_file():
        raise DataError(
            "the text came from standard input and its copy in the cache is gone; give the same text as a file with data.path.",
            file=copy,
            reason="input-copy-gone",
        )
    return copy


def _cached_copy(stream: BinaryIO, name: str) -> Path:
    """Copies a pipe to a file named by its sha256, since it is read more than once, and again on resume."""
    folder = cache_folder() / "input"
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".input-{os.getpid()}"
    digest, size = hashlib.sha256(), 0
    try:
        with draft.open("wb") as copy:
            while data := stream.read(_COPY):
                digest.update(data)
                copy.write(data)
                size += len(data)
                if size % (64 * _COPY) < _COPY and shutil.disk_usage(folder).free < _ROOM_LEFT:
                    raise DataError(
                        f"more than {size >> 20} MiB were read and the disk of {folder} is almost full; free some space.",
                        file=name,
                        reason="disk-almost-full",
                    )
        if not size:
            raise DataError(
                "standard input was empty; pipe a text into it, for example with cat text.txt |.",
                file=name,
                reason="nothing-piped",
            )
        return cached_folder("input", digest.hexdigest(), lambda made: os.replace(draft, made / "input")) / "input"
    finally:
        draft.unlink(missing_ok=True)


def sha256_of(file: Path) -> str:
    """The sha256 of a file; of a large one cached as long as its size and times are unchanged."""
    try:
        facts = file.stat()
        if facts.st_size < _REMEMBER_ABOVE:
            return sha256_of_file(file)
        key = sha256_of_text(f"{file.resolve()} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} {facts.st_ino}")
        note = cache_folder() / "fingerprints" / key
        if note.is_file():
            return note.read_text()
        digest = sha256_of_file(file)
    except OSError as error:
        raise DataError(
            f"cannot be read ({error.strerror}); check the path and its permissions.", file=file, reason="unreadable"
        ) from None
    with suppress(OSError):  # a cache that cannot be written to costs time, not the run
        write_atomically(note, digest)
    return digest


def fingerprint_of(source: Source | LabelSource | PairSource) -> str:
    """sha256 over the files' sha256, in order. A single file has its own."""
    digests = [sha256_of(file) for file in source.files]
    return digests[0] if len(digests) == 1 else sha256_of_text("".join(digests))


S = TypeVar("S", LabelSource, PairSource)
R = TypeVar("R")


def cached_rows(
    cache: MemoryCache[tuple[tuple[R, ...], Skipped]], source: S, read: Callable[[S, Skipped], Iterable[R]]
) -> tuple[tuple[R, ...], Skipped]:
    """The rows of a source and its skipped lines; cached in memory, since every trial of a study reads the same files."""
    sha256 = fingerprint_of(source)

    def make() -> tuple[tuple[R, ...], Skipped]:
        skipped = Skipped()
        rows = tuple(read(source, skipped))
        if fingerprint_of(source) != sha256:
            rule = "changed while it was read; start again once nothing writes to it."
            raise DataError(rule, file=source.name, reason="changed-while-read")
        return rows, skipped

    return cache.get((source, sha256), make)


def size_of(source: Source) -> int:
    """Bytes on disk."""
    return sum(file.stat().st_size for file in source.files)


def stamp_of(source: Source) -> list[tuple[int, int]]:
    """Size and modification time of each file, to detect writes while it is read."""
    return [(facts.st_size, facts.st_mtime_ns) for facts in (file.stat() for file in source.files)]
