"""Files of `question<TAB>answer` -> questions by split, checked line by line.

The training questions may be split by a seed: questions (people) are held out, never text. Files without
answers are read for predictions only. Errors name the file and the line.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from glassformer.data.config import DataConfig, SplitConfig
from glassformer.data.data_kinds import DataKind, register_data_kind
from glassformer.data.memory_cache import MemoryCache
from glassformer.data.prepare import ProgressCallback, memory_key
from glassformer.data.reading.corpus import read
from glassformer.data.reading.named_sets import QuestionFiles
from glassformer.data.reading.readers import EMPTY_LINE, given_texts, lines, to_text
from glassformer.data.reading.sources import at_places, find_sources, sha256_of, size_of
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError, DataError, UnknownName
from glassformer.foundation.seeds import derive_seed
from glassformer.knowledge.worlds import World

ANSWERED = ("train", "validation", "test")
INVENTED = 200
"""Number of fictitious people that are made up where a set has none."""

LONGEST_ANSWER = 32
"""The maximum number of tokens of an answer, unless the training answers are longer."""

_LONGEST_SEARCHED = 32 << 20  # bytes of text that are searched for names

NAME = r"[^\W\d_a-zß-öø-ÿ][\w'’.-]*"  # a word that begins with a capital
_SUBJECT = re.compile(rf"{NAME}(?:\s+\S+)*\s+{NAME}|{NAME}")
SLOT = "{name}"
MOST_WORDINGS = 4


@final
@dataclass(frozen=True)
class Questions:
    """The questions of one split, in order. ``answers``: None if unknown. ``lines``: the line of each."""

    name: str
    questions: tuple[str, ...]
    answers: tuple[str, ...] | None
    lines: tuple[int, ...]
    file: str | None = None
    nowhere: Questions | None = None
    """Questions about people who are in no text, to measure hallucination."""
    world: World | None = None
    wordings: tuple[str, ...] = ()
    """The wordings of the training questions, with ``{name}`` in them."""
    longest_answer: int = LONGEST_ANSWER
    """The maximum number of tokens of an answer, with the end token."""

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def groups(self) -> tuple[str, ...]:
        """The person that each question is about: questions about one person are one unit of a study."""
        return tuple(subject(question) for question in self.questions)

    @property
    def ids(self) -> list[str]:
        """Unique ids: the text of a question; for a repeated one with its line."""
        seen: set[str] = set()
        ids = []
        for question, line in zip(self.questions, self.lines):
            ids.append(f"{question} (line {line})" if question in seen else question)
            seen.add(question)
        return ids

    @property
    def fingerprint(self) -> str:
        """A checksum of the questions and their answers."""
        return fingerprint([self.questions, self.answers])

    def chosen(self, places: Sequence[int], name: str | None = None) -> Questions:
        answers = None if self.answers is None else tuple(self.answers[at] for at in places)
        questions, lines = tuple(self.questions[at] for at in places), tuple(self.lines[at] for at in places)
        return replace(self, name=name or self.name, questions=questions, answers=answers, lines=lines)

    def wrong(self, place: int, rule: str, *, reason: str) -> DataError:
        """An error about one question, with its file and line."""
        where = self.file if self.file is not None else f"question {place + 1}"
        return DataError(rule, file=where, line=self.lines[place] if self.file is not None else None, reason=reason)

    def encoded(self, tokenizer: Tokenizer, *, room: int | None = None) -> EncodedQuestions:
        """The ids of each question and of its answer (none where there is no answer).

        ``room``: the most ids a question, its answer and two marks may have. An answer's ids are those it has after a
        space, as in a sentence.
        """
        return _encodings.get(memory_key(tokenizer, self.fingerprint, room), lambda: self._encoded(tokenizer, room))

    def _encoded(self, tokenizer: Tokenizer, room: int | None) -> EncodedQuestions:
        found = []
        for place, question in enumerate(self.questions):
            answer = "" if self.answers is None else self.answers[place]
            ids = tokenizer.encode(question), [] if self.answers is None else answer_ids(tokenizer, answer)
            if tokenizer.unknown_id is not None and any(tokenizer.unknown_id in part for part in ids):
                raise self.wrong(place, _unknown(tokenizer, question, answer), reason="unknown-token")
            size = len(ids[0]) + len(ids[1]) + 2
            if room is not None and size > room:
                raise self.wrong(
                    place,
                    f"the question with its answer takes {size} tokens (two of them marks), but model.context={room - 1} has "
                    f"room for {room}; shorten it or enlarge the context.",
                    reason="question-too-long",
                )
            found.append(ids)
        return found


EncodedQuestions = list[tuple[list[int], list[int]]]
_encodings = MemoryCache[EncodedQuestions](12, lambda encoded: 36 * sum(len(asked) + len(told) for asked, told in encoded))
"""In-memory cache: every trial of a study encodes the same questions."""


def answer_ids(tokenizer: Tokenizer, answer: str) -> list[int]:
    """The ids of ``answer`` inside a sentence, with a preceding space where the tokenizer joins it to the word."""
    ids = tokenizer.encode(" " + answer)
    return ids[1:] if ids and tokenizer.decode(ids[:1]) == " " else ids


def _unknown(tokenizer: Tokenizer, *texts: str) -> str:
    for text in texts:
        for piece in (*text, *text.split()):
            if tokenizer.encode(piece) and set(tokenizer.encode(piece)) == {tokenizer.unknown_id}:
                return f"{piece!r} is unknown to the tokenizer, which learned from the training text; spell it otherwise."
    return "something in this line is unknown to the tokenizer, which learned from the training text; spell it otherwise."


def read_questions(file: Path | str, *, name: str | None = None, answered: bool | None = None) -> Questions:
    """The questions of a file. ``answered``: whether answers are required; None: as in the first line.

    Without it predictions are written line by line, so an empty line between questions, which would shift the others, is
    refused.
    """
    file = Path(file).expanduser()
    questions, answers, numbers = [], [], []
    empty_lines, empty = answered is not None, None
    for number, line in lines(file):
        text = to_text(line, file, number).rstrip("\r\n")
        if not text.strip():
            empty = number if empty is None else empty
            continue
        if empty is not None and not empty_lines:
            raise DataError(EMPTY_LINE, file=file, line=empty, reason="empty-line")
        cells = text.split("\t")
        answered = len(cells) > 1 if answered is None else answered
        _check_cells(cells, answered, file, number)
        questions.append(cells[0].strip())
        answers.append(cells[1].strip() if answered else "")
        numbers.append(number)
    if not questions:
        raise DataError("contains no question; each line must be question<TAB>answer.", file=file, reason="no-question")
    return Questions(name or str(file), tuple(questions), tuple(answers) if answered else None, tuple(numbers), str(file))


def _check_cells(cells: list[str], answered: bool, file: Path, number: int) -> None:
    if answered and len(cells) == 1:
        rule, reason = "there is no tab between a question and its answer; each line is question<TAB>answer.", "no-tab"
    elif len(cells) > 2 or (not answered and len(cells) > 1):
        columns = "question<TAB>answer are 2" if answered else "a question alone is 1"
        rule, reason = f"the row has {len(cells)} columns, but {columns}.", "too-many-columns"
    elif not cells[0].strip():
        rule, reason = "the question is empty; give one before the tab.", "empty-question"
    elif answered and not cells[1].strip():
        rule = "the answer is empty; give one after the tab, or leave the answers out of the whole file."
        reason = "empty-answer"
    else:
        return
    raise DataError(rule, file=file, line=number, reason=reason)


def questions_of_file(
    tokenizer: Tokenizer, path: Path | str, reading: DataConfig | None = None, *, record: Any = None
) -> Questions:
    """All questions of a user's file, with or without answers; raises on characters unknown to the tokenizer."""
    found = replace(read_questions(path), name="file", longest_answer=_longest_answer(record))
    found.encoded(tokenizer)
    return found


def questions_of_texts(tokenizer: Tokenizer, texts: str | Sequence[str], *, pairs: Any = None, record: Any = None) -> Questions:
    """Questions given as strings, without answers. ``pairs`` are for classifiers of pairs, and raise here."""
    questions = given_texts(texts, "question", pairs=pairs)
    lines = tuple(range(1, len(questions) + 1))
    found = Questions("text", tuple(questions), None, lines, longest_answer=_longest_answer(record))
    found.encoded(tokenizer)
    return found


def _longest_answer(record: Mapping[str, Any] | None) -> int:
    """The length of the longest training answer, from the run's record of its questions."""
    return LONGEST_ANSWER if record is None else int(record["parts"]["questions"]["longest_answer"])


def hold_out(questions: Questions, split: SplitConfig, *, validation: bool, test: bool) -> dict[str, Questions]:
    """Splits the questions by a hash of the seed and the question, so that the order of the file does not matter."""

    def key(place: int) -> bytes:
        return hashlib.sha256(f"{split.seed}/{questions.questions[place]}".encode()).digest()

    order = sorted(range(len(questions)), key=key)
    counts = {
        "validation": round(split.validation * len(order)) if validation else 0,
        "test": round(split.test * len(order)) if test else 0,
    }
    found, at = {}, 0
    for name, count in counts.items():
        if count:
            found[name] = questions.chosen(sorted(order[at : at + count]), name)
        at += count
    found["train"] = questions.chosen(sorted(order[at:]), "train")
    if not len(found["train"]):
        raise DataError(
            "data.split leaves no question to train on; give more questions.", file=questions.file, reason="no-questions-left"
        )
    return found


@final
class QuestionsPart:
    """The questions of a recipe's data by split; a part of ``data.data_kinds.PreparedData``."""

    def __init__(self, files: QuestionFiles, split: SplitConfig, tokenizer: Tokenizer) -> None:
        self.files, self.tokenizer, self._split = files, tokenizer, split
        own = read_questions(files.train, name="train", answered=True)
        self._splits = hold_out(own, split, validation=files.validation is None, test=not files.tests)
        if files.validation is not None:
            self._splits["validation"] = read_questions(files.validation, name="validation", answered=True)
        encoded = {name: questions.encoded(tokenizer) for name, questions in self._splits.items()}
        self.longest_answer = max(LONGEST_ANSWER, *(len(answer) + 1 for _, answer in encoded["train"]))
        self.wordings = tuple(wordings(self._splits["train"].questions))
        self._world = None if files.truth is None else World(files.truth)
        self._later = {
            f"test:{name}" if len(files.tests) > 1 or name != "test" else "test": at for name, at in files.tests.items()
        }
        self._later |= {f"unanswered:{name}": at for name, at in files.unanswered.items()}
        if files.nowhere is not None:
            self._later["nowhere"] = files.nowhere

    def invent_people(self, text: str) -> None:
        """Makes up questions about fictitious people, if the files have none: first and last names of different people."""
        if "nowhere" in self.names or not self.wordings:
            return
        names = [subject(question) for question in self._splits["train"].questions]
        known = " ".join(question for split in self._splits.values() for question in split.questions)
        invented = invented_names(names, lambda name: name in text or name in known, many=INVENTED, seed=self._split.seed)
        questions = tuple(self.wordings[0].replace(SLOT, name) for name in invented)
        if questions:
            self._splits["nowhere"] = Questions("nowhere", questions, None, tuple(range(1, len(questions) + 1)))

    @property
    def names(self) -> list[str]:
        there = list(dict.fromkeys([*self._splits, *self._later]))
        return [name for name in ANSWERED if name in there] + [name for name in there if name not in ANSWERED]

    def split(self, name: str) -> Questions:
        """One split; test files are read on the first call. ``test`` is the only test file, whatever its name."""
        tests = [known for known in self._later if known.startswith("test:")]
        if name == "test" and name not in self.names and len(tests) == 1:
            name = tests[0]
        if name not in self.names:
            raise UnknownName("--split", name, self.names)
        if name not in self._splits:
            answered = None if name.startswith("unanswered:") else True
            self._splits[name] = read_questions(self._later[name], name=name, answered=answered)
            self._splits[name].encoded(self.tokenizer)
        found = replace(self._splits[name], world=self._world, longest_answer=self.longest_answer)
        if name == "nowhere" or "nowhere" not in self.names:
            return found
        return replace(found, nowhere=self.split("nowhere"), wordings=self.wordings)

    @property
    def notes(self) -> list[str]:
        sizes = {name: len(questions) for name, questions in self._splits.items()}
        held_out = "" if self.files.validation else f", held out of them by seed {self._split.seed}"
        about = f"{sizes['train']:,} questions train, {sizes.get('validation', 0):,} validate{held_out}"
        return [f"{about}; all of the text trains: what is held out are questions."]

    @property
    def record(self) -> dict[str, Any]:
        """The record in a run: the sha256 of each file, and the number of questions by split."""
        return {
            "files": {name: {"file": str(at), "sha256": sha256_of(at)} for name, at in self._all_files().items()},
            "split": self._split.to_dict(),
            "longest_answer": self.longest_answer,
            "sizes": {name: len(questions) for name, questions in self._splits.items()},
        }

    def _all_files(self) -> dict[str, Path]:
        own = {"train": self.files.train, "validation": self.files.validation}
        return {name: at for name, at in {**own, **self._later}.items() if at is not None}


def prepare_questions(
    data: DataConfig,
    tokenizer: Tokenizer | TokenizerConfig,
    *,
    marks: Sequence[str] = (),
    progress: ProgressCallback | None = None,
    expect: Mapping[str, Any] | None = None,
) -> QuestionsPart:
    """The questions of a recipe's data, with the tokenizer of its text. Raises if files differ from ``expect``."""
    if isinstance(tokenizer, TokenizerConfig):
        raise ConfigError(
            "Questions have no tokenizer of their own: an objective reads its text first, then its questions.",
            reason="questions-before-text",
        )
    places = {
        str(named): before["file"]
        for name, before in (expect or {}).get("files", {}).items()
        if data.questions is not None and (named := getattr(data.questions, name.partition(":")[0], None))
    }
    parts = find_sources(at_places(data, places))
    files = parts.questions
    if files is None:
        raise ConfigError(
            "data.questions is missing: this objective needs questions; give a file of question<TAB>answer.",
            reason="no-questions",
        )
    part = QuestionsPart(files, data.split, tokenizer.with_marks(marks))
    if size_of(parts.train) <= _LONGEST_SEARCHED:
        part.invent_people("".join(document.text for document in read(parts.train)))
    for name, before in (expect or {}).get("files", {}).items():
        at = part._all_files().get(name)
        if at is None or sha256_of(at) != before["sha256"]:
            raise DataError(
                f"the {name} questions changed since the run began; restore the old file, or start a new run.",
                file=at or before["file"],
                reason="questions-changed",
            )
    return part


def subject(question: str) -> str:
    """The person's name: from the first capitalised word after the first word to the last one."""
    first, _, rest = question.strip().partition(" ")
    found = _SUBJECT.search(rest.rstrip(" ?.!"))
    return found.group(0) if found else rest.rstrip(" ?.!") or first


def wordings(questions: Sequence[str]) -> list[str]:
    """Question templates with ``{name}`` that several people share, the most common first."""
    counts = Counter(question.replace(subject(question), SLOT, 1) for question in questions)
    return [wording for wording, count in counts.most_common(MOST_WORDINGS) if count > 1 and SLOT in wording]


def invented_names(names: Sequence[str], exists: Callable[[str], bool], *, many: int, seed: int) -> list[str]:
    """Up to ``many`` new names, each from one person's first and another's last word."""
    known = sorted(set(names))
    firsts = sorted({name.split()[0] for name in known if " " in name})
    lasts = sorted({name.split()[-1] for name in known if " " in name})
    generator = np.random.Generator(np.random.PCG64(derive_seed(seed, "invented names")))
    found: dict[str, None] = {}
    for _ in range(20 * many if firsts else 0):
        first, last = (group[int(generator.random() * len(group))] for group in (firsts, lasts))
        name = f"{first} {last}"
        if name not in found and not exists(name):
            found[name] = None
        if len(found) == many:
            break
    return list(found)


register_data_kind("questions", DataKind(load=prepare_questions, of_file=questions_of_file, of_texts=questions_of_texts))
