"""Notes about prepared data, as sentences: splits, duplicates, overlap, unknown tokens."""

from __future__ import annotations

from collections.abc import Mapping

from glassformer.data.near_duplicates import SHINGLE, SIMILAR, Near
from glassformer.data.reading.corpus import Skipped
from glassformer.data.reading.splits import Assignment, Survey
from glassformer.data.token_files import Duplicates, TokenSplit
from glassformer.data.tokenizers.base import Tokenizer


def about_split(assignment: Assignment, found: Survey, splits: Mapping[str, TokenSplit]) -> list[str]:
    """How the text was split, and whether the shares differ much from the requested ones."""
    if assignment.by == "nothing":
        return []
    if assignment.by == "position":
        shares = ", then ".join(f"{100 * assignment.shares[part]:.3g} % for {part}" for part in assignment.splits[1:])
        what = "is one document" if found.documents == 1 else f"has only {found.documents} documents"
        return [f"The text {what}, so it is split by position: the end of it is held out ({shares})."]
    sentences = []
    for part, share in assignment.shares.items():
        if share and part in splits and found.characters:
            real = splits[part].num_characters / found.characters
            if not share / 1.5 <= real <= share * 1.5:
                sentences.append(
                    f"{part} holds {real:.1%} of the text rather than {share:.1%}, because documents are drawn whole and there "
                    f"are {found.documents:,} of them."
                )
    return sentences


def about_skipped(skipped: Skipped) -> list[str]:
    if not skipped.count:
        return []
    lines = "1 bad line was" if skipped.count == 1 else f"{skipped.count:,} bad lines were"
    return [f"{lines} left out, as data.bad_lines: skip allows. First: {' | '.join(skipped.examples)}"]


def about_equal_files(fingerprints: Mapping[str, str]) -> list[str]:
    """A note, not an error: it is a way to measure memorisation."""
    names = list(fingerprints)
    return [
        f"The {second} file has the same bytes as the {first} file: figures on it measure memorisation, not generalisation."
        for number, first in enumerate(names)
        for second in names[number + 1 :]
        if fingerprints[first] == fingerprints[second]
    ]


def about_repeats(split: TokenSplit) -> list[str]:
    if not split.repeats.count:
        return []
    later, first = split.repeats.examples[0]
    return [
        f"{split.repeats.count:,} of {split.num_documents:,} documents of {split.name} repeat an earlier one, for example "
        f"{split.where(later)}, as in {split.where(first)}."
    ]


def about_overlap(train: TokenSplit, split: TokenSplit, again: Duplicates, near: Near | None = None) -> list[str]:
    """How many documents of a held-out split are in train, up to case and spacing, and how many almost are."""
    found = []
    if again.count:
        there, here = again.examples[0]
        found.append(
            f"{again.count:,} of {split.num_documents:,} documents of {split.name} ({again.count / split.num_documents:.1%}) "
            f"also occur in train, for example {split.where(there)}, as in {train.where(here)}: figures on {split.name} are "
            "too optimistic."
        )
    if near is not None and near.pairs:
        there, here, similarity = min(near.pairs, key=lambda pair: pair[2])
        found.append(
            f"{near.count:,} of {split.num_documents:,} documents of {split.name} share at least {SIMILAR:.0%} of their runs "
            f"of {SHINGLE} tokens with one of train, for example {split.where(there)} with {train.where(here)} "
            f"({similarity:.0%}): near-duplicates."
        )
    return found


def about_unknown(split: TokenSplit) -> list[str]:
    if not split.unknown_tokens:
        return []
    return [f"{split.unknown_tokens:,} of {split.num_tokens:,} tokens of {split.name} are UNK ({split.unknown_share:.2%})."]


def about_dropped(tokenizer: Tokenizer) -> list[str]:
    dropped = getattr(tokenizer, "dropped", 0)
    if not dropped:
        return []
    return [f"There are so many different words that {dropped:,} of the rarest were dropped while counting."]
