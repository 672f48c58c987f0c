"""The ``data`` section of a recipe: where the text is, how it is split into documents, what is held out.

Holds choices only and opens no file. ``sources`` turns it into files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from glassformer.foundation.config import Config
from glassformer.foundation.registry import Slot, VariantConfig

if TYPE_CHECKING:
    from glassformer.data.reading.named_sets import DataSources

DocumentKind = Literal["line", "block", "file", "article"]
NO_DATA = "none"
"""The ``set`` of a recipe without text of its own: that of an imported model."""
FormatKind = Literal["text", "jsonl", "csv", "tsv", "parquet", "label-text"]


class SplitConfig(Config):
    """The shares held out of the text. ``seed`` is the split's own: training seeds of a study see the same split."""

    validation: float = Field(default=0.1, ge=0, lt=1)
    """Share of the documents held out for validation."""
    test: float = Field(default=0.0, ge=0, lt=1)
    """Share of the documents held out for testing; training never reads them."""
    seed: int = Field(default=0, ge=0)
    """Chooses the held-out documents. Independent of the run's `seed`, so all runs hold out the same ones."""
    stratify: bool = False
    """For labelled texts: hold out the same share of each label, so that none is missing by chance."""

    def held_out(self, *, validation: bool, test: bool) -> SplitConfig:
        """The same without the shares that are not held out, since there are files of their own."""
        shares = {"validation": self.validation if validation else 0.0, "test": self.test if test else 0.0}
        return self.model_copy(update=shares)

    @model_validator(mode="after")
    def _leaves_something(self) -> Self:
        if self.validation + self.test >= 1:
            raise ValueError(
                f"validation={self.validation} and test={self.test} leave nothing to train on; their sum must be below 1."
            )
        return self


class QuestionsConfig(Config):
    """Files of ``question<TAB>answer``. Without ``validation`` (``test``) a share of ``train`` is held out (data.split)."""

    train: str = Field(min_length=1)
    validation: str | None = None
    test: str | None = None
    nowhere: str | None = None
    """Questions about people who are neither in the text nor in ``train``: what is said about them is invented."""

    @property
    def files(self) -> list[str]:
        return [file for file in (self.train, self.validation, self.test, self.nowhere) if file]


class GeneratedSetConfig(VariantConfig):
    """A data set that is computed from settings."""

    def find(self) -> DataSources:
        """Its files, generated on the first call."""
        raise NotImplementedError


GENERATED_SETS: Slot[GeneratedSetConfig] = Slot(
    "data.set",
    "a data set that is computed from settings",
    "glassformer.knowledge.worlds",
    "glassformer.knowledge.people_text",
    "glassformer.data.pairs.rewriting_set",
    "glassformer.data.reading.skill_set",
)


def _parsed_set(value: Any) -> Any:
    """A mapping with ``kind`` -> the settings of a generated set; a name stays a name."""
    return GENERATED_SETS.parse(value) if isinstance(value, Mapping) else value


def _parsed_questions(value: Any) -> Any:
    if isinstance(value, str):
        return QuestionsConfig.parse({"train": value}, at="data.questions")
    return QuestionsConfig.parse(value, at="data.questions") if isinstance(value, Mapping) else value


class DataConfig(Config):
    """``set`` (a named or a made-up one) or ``path`` (a file, a folder, or - for standard input), and how to read it."""

    set: Annotated[str | SerializeAsAny[GeneratedSetConfig] | None, BeforeValidator(_parsed_set)] = None
    """A named set (`glassformer data list`), or a mapping with `kind` for a generated one."""
    path: str | None = None
    """Your own text: a file, a folder, or `-` for standard input; for translation also two files with a comma between them,
    the source's first; a folder saved by the library `datasets`, or `hf:NAME:CONFIG` of the Hugging Face hub, `#SPLIT` at its
    end. Relative to the working directory, or else to the recipe's folder."""
    validation: str | None = None
    """A separate validation file, or for labels the name of one of the set's test files; then no share is held out."""
    test: str | None = None
    """A separate test file; then no share is held out."""
    split: SplitConfig = SplitConfig()
    document: DocumentKind | None = None
    """What one document of a text file is; by default the whole file, or what the named set defines."""
    format: FormatKind | None = None
    """The file format; by default recognised by the file's ending."""
    files: str | None = None
    """Which files of a folder, as a pattern such as `*.txt`."""
    text_column: str | int | None = None
    """In jsonl, csv, tsv and parquet files, the column with the text: a name, or a number counted from 1."""
    pair_column: str | int | None = None
    """The column with a second text, for objectives about pairs."""
    label_column: str | int | list[str] | None = None
    """The column with the label or the number to predict; for several labels at once also a list of columns of 0 and 1."""
    label_separator: str | None = Field(default=None, min_length=1)
    """What stands between the labels of one cell, for `objective: multilabel`; by default `;`."""
    class_weights: Literal["none", "balanced"] = "none"
    """`balanced`: in the training loss every class has the same total weight, however rare it is."""
    few: int | None = Field(default=None, ge=1)
    """Train on so many texts of each label only, drawn from the training texts by `few_seed`."""
    few_seed: int | None = Field(default=None, ge=0)
    """Of the draw; by default the run's `seed`, so that every seed of a study draws other texts."""
    source_column: str | int | None = None
    """The column with the text that is read, for translation; by default `source`. Of two parallel files: the ending of one
    (`de`)."""
    target_column: str | int | None = None
    """The column with the text that is written, for translation; by default `target`."""
    group: str | int | None = None
    """What belongs together, so that a study counts groups and not documents: `file`, `article`, or a column (a speaker, a
    book); by default what the named set defines."""
    vocabulary: list[str] = Field(default_factory=list)
    """More text files that the tokenizer learns from."""
    bad_lines: Literal["refuse", "skip"] = "refuse"
    """What to do with unreadable lines: stop with the line's number, or skip and report them."""
    questions: Annotated[QuestionsConfig | None, BeforeValidator(_parsed_questions)] = None
    """Questions about the text: a file, or files by split. A set may have its own."""

    def drawn_by(self, seed: int) -> DataConfig:
        """The same with the run's seed where the draw of few texts has none of its own."""
        return self if self.few is None or self.few_seed is not None else self.model_copy(update={"few_seed": seed})

    @property
    def absent(self) -> bool:
        """Whether there is no text."""
        return self.set == NO_DATA

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.set is None) == (self.path is None):
            which = "both are given" if self.set is not None else "neither is given"
            raise ValueError(f"exactly one of set and path says where the text is, but {which}.")
        if self.path == "" or self.set == "":
            raise ValueError("set and path may not be empty text.")
        keys = ("text_column", "pair_column", "label_column", "source_column", "target_column")
        columns = {key: getattr(self, key) for key in keys}
        if isinstance(several := columns["label_column"], list):
            if len(several) != len(set(several)) or not several:
                raise ValueError(f"label_column={several} must name columns, each of them once.")
            columns["label_column"] = next((name for name in several if not name), several[0])
        if len({type(column) for column in columns.values() if column is not None}) > 1:
            shown = ", ".join(f"{key}={column!r}" for key, column in columns.items() if column is not None)
            raise ValueError(
                f"{shown} must all be names (the first row is a header) or all be numbers counted from 1 (there is no header)."
            )
        for key, column in columns.items():
            if column == "" or (isinstance(column, int) and column < 1):
                raise ValueError(f"{key}={column!r} must be a name, or a number counted from 1.")
        return self


def replace_source(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The ``data`` section prepared for ``changes`` (keys inside the section): setting one source removes the other.

    With the old source go the files that belonged to it (``validation``, ``test``, ``vocabulary``, ``questions``) unless they
    are changed as well. The changes themselves are not applied here.
    """
    result = dict(data)
    for new, old in (("set", "path"), ("path", "set")):
        if changes.get(new) is not None and data.get(old) is not None:
            for key in (old, "validation", "test", "vocabulary", "questions"):
                result.pop(key, None)
    return result
