"""Files of `question<TAB>answer` -> questions by split, checked line by line.

The training questions may be split by a seed: questions (people) are held out, never text. Files without
answers are read for predictions only. Errors name the file and the line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from glassformer.data.config import DataConfig, SplitConfig
from glassformer.data.data_kinds import DataKind, register_data_kind
from glassformer.data.memory_cache import MemoryCache
from glassformer.data.prepare import ProgressCallback, memory_key
from glassformer.data.reading.corpus import read
from glassformer.data.reading.named_sets import QuestionFiles
from glassformer.data.reading.readers import EMPTY_LINE, lines, to_text
from glassformer.data.reading.sources import at_places, find_sources, sha256_of, size_of
from glassformer.data.tokenizers.base import Tokenizer, TokenizerConfig
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError, DataError, UnknownName, UsageError
from glassformer.knowledge.subjects import SLOT, invented_names, subject, wordings
from glassformer.knowledge.worlds import World

ANSWERED = ("train", "validation", "test")
INVENTED = 200
"""Number of fictitious people that are made up where a set has none."""

LONGEST_ANSWER = 32
"""The maximum number of tokens of an answer, unless the training answers are longer."""

_LONGEST_SEARCHED = 32 << 20  # bytes of text that are searched for names


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
        kept = (tuple(self.questions[at] for at in places), answers, tuple(self.lines[at] for at in places))
        return Questions(name or self.name, *kept, self.file, self.nowhere, self.world, self.wordings, self.longest_answer)

    def wrong(self, place: int, rule: str) -> DataError:
        """An error about one question, with its file and line."""
        where = self.file if self.file is not None else f"question {place + 1}"
        return DataError(rule, file=where, line=self.lines[place] if self.file is not None else None)

    def encoded(self, tokenizer: Tokenizer, *, room: int | None = None) -> EncodedQuestions:
        """The ids of each question and of its answer (none where there is no answer).

        ``room``: the most ids a question, its answer and two marks may have. An answer's ids are those it has after a
        space, as in a sentence.
        """
        return _encodings.get(memory_key(tokenizer, self.fingerprint, room), lambda: self._encoded(tokenizer, room))

    def _encoded(self, tokenizer: Tokenizer, room: int | None) -> EncodedQuestions:
        found = []
        for place, question in enumerate(self.questions):
            asked = tokenizer.encode(question)
            answer = answer_ids(tokenizer, self.answers[place]) if self.answers is not None else []
            if tokenizer.unknown_id is not None and tokenizer.unknown_id in (*asked, *answer):
                raise self.wrong(place, _unknown(tokenizer, question, "" if self.answers is None else self.answers[place]))
            if room is not None and len(asked) + len(answer) + 2 > room:
                raise self.wrong(
                    place,
                    f"the question with its answer takes {len(asked) + len(answer) + 2} tokens (two of them marks), but "
                    f"model.context={room - 1} has room for {room}; shorten it or enlarge the context.",
                )
            found.append((asked, answer))
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

    Without it the questions are there to be asked, and predictions are written line by line: an empty line between them, which
    would shift the others, is refused.
    """
    file = Path(file).expanduser()
    questions, answers, numbers = [], [], []
    asked, empty = answered is None, None
    for number, line in lines(file):
        text = to_text(line, file, number).rstrip("\r\n")
        if not text.strip():
            empty = number if empty is None else empty
            continue
        if asked and empty is not None:
            raise DataError(EMPTY_LINE, file=file, line=empty)
        cells = text.split("\t")
        answered = len(cells) > 1 if answered is None else answered
        _check_cells(cells, answered, file, number)
        questions.append(cells[0].strip())
        answers.append(cells[1].strip() if answered else "")
        numbers.append(number)
    if not questions:
        raise DataError("there is no question in it; each line is question<TAB>answer.", file=file)
    return Questions(name or str(file), tuple(questions), tuple(answers) if answered else None, tuple(numbers), str(file))


def _check_cells(cells: list[str], answered: bool, file: Path, number: int) -> None:
    if answered and len(cells) == 1:
        rule = "there is no tab between a question and its answer; each line is question<TAB>answer."
    elif len(cells) > 2 or (not answered and len(cells) > 1):
        rule = f"the row has {len(cells)} columns, but {'question<TAB>answer are 2' if answered else 'a question alone is 1'}."
    elif not cells[0].strip():
        rule = "the question is empty; give one before the tab."
    elif answered and not cells[1].strip():
        rule = "the answer is empty; give one after the tab, or leave the answers out of the whole file."
    else:
        return
    raise DataError(rule, file=file, line=number)


def questions_of_file(
    tokenizer: Tokenizer,
    path: Path | str,
    reading: DataConfig | None = None,
    *,
    name: str = "file",
    progress: Any = None,
    record: Any = None,
) -> Questions:
    """All questions of a user's file, with or without answers; raises on characters unknown to the tokenizer."""
    found = replace(read_questions(path), name=name, longest_answer=_longest_answer(record))
    found.encoded(tokenizer)
    return found


def questions_of_texts(
    tokenizer: Tokenizer, texts: str | Sequence[str], *, pairs: Any = None, name: str = "text", record: Any = None
) -> Questions:
    """Questions given as strings, without answers. ``pairs`` are for classifiers of pairs, and raise here."""
    given = [texts] if isinstance(texts, str) else list(texts)
    if pairs is not None:
        raise UsageError("This run answers questions, and reads one text; leave --pair out.")
    if odd := [text for text in given if not isinstance(text, str)]:
        raise UsageError(f"A question is text, and {odd[0]!r} is {type(odd[0]).__name__}; give texts.")
    if not given or not all(text.strip() for text in given):
        raise DataError("The question is empty; give at least one word.")
    lines = tuple(range(1, len(given) + 1))
    found = Questions(name, tuple(text.strip() for text in given), None, lines, longest_answer=_longest_answer(record))
    found.encoded(tokenizer)
    return found


def _longest_answer(record: Mapping[str, Any] | None) -> int:
    """The length of the longest training answer, from the run's record; older ones do not have it."""
    known = record or {}
    return int((known.get("parts", {}).get("questions") or known).get("longest_answer", LONGEST_ANSWER))


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
        raise DataError("data.split leaves no question to train on; give more questions.", file=questions.file)
    return found


@final
class QuestionsPart:
    """The questions of a recipe's data by split; see ``data.parts``."""

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
        asked = " ".join(question for split in self._splits.values() for question in split.questions)
        invented = invented_names(names, lambda name: name in text or name in asked, many=INVENTED, seed=self._split.seed)
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
        held = [] if self.files.validation else [f"held out of them by seed {self._split.seed}"]
        about = f"{sizes['train']:,} questions train, {sizes.get('validation', 0):,} validate"
        return [f"{about}{', ' + held[0] if held else ''}; all of the text trains: what is held out are questions."]

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
        raise ConfigError("Questions have no tokenizer of their own: an objective reads its text first, then its questions.")
    places = {
        str(named): before["file"]
        for name, before in (expect or {}).get("files", {}).items()
        if data.questions is not None and (named := getattr(data.questions, name.partition(":")[0], None))
    }
    parts = find_sources(at_places(data, places))
    files = parts.questions
    if files is None:
        raise ConfigError("data.questions is missing: this objective needs questions; give a file of question<TAB>answer.")
    part = QuestionsPart(files, data.split, tokenizer.with_marks(marks))
    if size_of(parts.train) <= _LONGEST_SEARCHED:
        part.invent_people("".join(document.text for document in read(parts.train)))
    for name, before in (expect or {}).get("files", {}).items():
        at = part._all_files().get(name)
        if at is None or sha256_of(at) != before["sha256"]:
            raise DataError(
                f"the {name} questions are not what they were when the run began; give back the old file, or start a new run.",
                file=at or before["file"],
            )
    return part


register_data_kind("questions", DataKind(load=prepare_questions, of_file=questions_of_file, of_texts=questions_of_texts))
