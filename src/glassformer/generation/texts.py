"""Prompts as text -> texts that continue them: the tokenizer, stop strings and streaming around the generation of ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import BadArgument
from glassformer.foundation.seeds import derive_seed
from glassformer.generation.generate import generate

SPARE_TOKENS = 8
"""Extra tokens decoded beyond the longest stop string: the first ones may be incomplete characters or special tokens."""
HELD_BACK = 8
"""The number of ids held back when the streamed text need not be exact."""
MARKS = 2
"""Tokens that a text may get around it: a start and a stop, or the classifier's own."""


@dataclass(frozen=True)
class Sample:
    """One generated text: ``print(sample)`` writes prompt and text."""

    prompt: str
    text: str
    """What the model wrote, without the prompt."""
    tokens: int
    """How many it wrote."""
    ended: str
    """Why: "length", "stop" (a string of ``stop``) or "stop id" (the mark of the end)."""
    ids: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"prompt": self.prompt, "text": self.text, "tokens": self.tokens, "ended": self.ended}

    def __str__(self) -> str:
        return self.prompt + self.text


def generate_texts(
    model: Any,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    seed: int,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    stop: Sequence[str] = (),
    stop_ids: Sequence[int] = (),
    on_text: Callable[[str], None] | None = None,
    exact_pieces: bool = False,
    say: Callable[[str], None] | None = None,
) -> list[Sample]:
    """Texts that continue the prompts, each from a seed of its own. ``on_text`` gets pieces of one text as they come.

    ``exact_pieces``: together the pieces are exactly the text. Otherwise none waits for more than a few tokens: a tokenizer of
    words knows only at the next ' whether one opened a quotation, and a space beside it may be on its other side.
    ``stop_ids``: ids at which a text ends; that of the tokenizer's stop mark unless given. ``say`` gets a sentence for each
    prompt that the model cannot read as it is.
    """
    if say is not None:
        for note in prompt_notes(tokenizer, prompts, model.dims.context):
            say(note)

    def decode(ids: Sequence[int]) -> str:
        """Without ids that no token has: some published models have more rows than their tokenizer has tokens."""
        return tokenizer.decode([token_id for token_id in ids if token_id < tokenizer.size])

    ending = StopStrings(decode, stop)
    pieces = None if on_text is None else StreamedText(decode, on_text, ending, tokenizer.stable_length, exact=exact_pieces)
    results = generate(
        model,
        [prompt_ids(tokenizer, prompt) for prompt in prompts],
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        seeds=[derive_seed(seed, "prompt", row) for row in range(len(prompts))],
        stop_ids=stop_ids or ([] if tokenizer.stop_id is None else [tokenizer.stop_id]),
        stop=ending if stop else None,
        on_token=pieces,
        start_id=tokenizer.start_id,
    )
    if pieces is not None:
        pieces.finish()
    return [
        Sample(prompt, ending.cut(decode(result.ids)), len(result.ids), result.reason, tuple(result.ids))
        for prompt, result in zip(prompts, results)
    ]


def prompt_notes(tokenizer: Tokenizer, prompts: Sequence[str], context: int) -> list[str]:
    """What a person should know about prompts that the model cannot read as they are: too long, or with unknown tokens."""
    notes, different = [], list(dict.fromkeys(prompts))
    for number, prompt in enumerate(different, start=1):
        name, ids = "The prompt" if len(different) == 1 else f"Prompt {number}", prompt_ids(tokenizer, prompt)
        if len(ids) > context:
            notes.append(
                f"{name} has {len(ids)} tokens, and the model reads at most the last {context} of them (model.context)."
            )
        unknown = 0 if tokenizer.unknown_id is None else ids.count(tokenizer.unknown_id)
        if unknown:
            notes.append(f"{name}: {unknown} of {len(ids)} tokens are unknown to the tokenizer (not in its training text).")
    return notes


def prompt_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """An empty prompt begins like a document: with the start mark, or else with a line break, or (words have none) after a
    full stop."""
    if prompt or tokenizer.start_id is not None:
        start = [] if tokenizer.start_id is None else [tokenizer.start_id]
        return [*start, *tokenizer.encode(prompt)]
    return tokenizer.encode("\n") or tokenizer.encode(".")


@final
class StopStrings:
    """Whether one of some strings has appeared in the new ids, and the text before it; the ``stop`` of ``generate``.

    Called after every new id, so it decodes only the end of the text, given that a token has at least one byte.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], strings: Sequence[str]) -> None:
        if "" in strings:
            raise BadArgument("stop", "", "an empty string would end every text at once; leave it out")
        self.decode, self.strings = decode, tuple(strings)
        self.tokens = max((len(string.encode()) for string in strings), default=0) + SPARE_TOKENS

    def __call__(self, row: int, new_ids: list[int]) -> bool:
        """Whether the text of the new ids holds one of the strings."""
        if not self.strings:
            return False
        end = self.decode(new_ids[-self.tokens :])
        return any(string in end for string in self.strings)

    def cut(self, text: str) -> str:
        """The text before the first of the strings in it."""
        places = [place for string in self.strings if (place := text.find(string)) >= 0]
        return text[: min(places)] if places else text


@final
class StreamedText:
    """Ids that arrive one by one -> pieces of text that no later id will change.

    So it emits no incomplete character and no possible beginning of a stop string.

    ``stable_length``: ``Tokenizer.stable_length``. ``exact``: the rest is held back, however long. Otherwise all but the last
    ``HELD_BACK`` ids are emitted as decoded so far, even if later ids would move a space in that.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        on_text: Callable[[str], None],
        stop: StopStrings,
        stable_length: Callable[[Sequence[int]], int] = len,
        *,
        exact: bool = True,
    ) -> None:
        self._decode, self._on_text, self._stop, self._stable_length, self._exact = decode, on_text, stop, stable_length, exact
        self._ids: list[int] = []
        self._emitted = ""

    def __call__(self, row: int, token_id: int) -> None:
        self._ids.append(token_id)
        ready = max(self._stable_length(self._ids), 0 if self._exact else len(self._ids) - HELD_BACK)
        text = self._decode(self._ids[:ready]).rstrip("\N{REPLACEMENT CHARACTER}")
        certain = self._stop.cut(text)
        if certain == text:
            certain = text[: len(text) - max((_overhang(text, string) for string in self._stop.strings), default=0)]
        self._emit(certain)

    def finish(self) -> None:
        """Emits what was held back."""
        self._emit(self._stop.cut(self._decode(self._ids)))

    def _emit(self, text: str) -> None:
        new = text[_end_of_emitted(text, self._emitted) :]
        if new:
            self._on_text(new)
            self._emitted += new


def _end_of_emitted(text: str, before: str) -> int:
    """Where the content of ``before`` ends in ``text``; spaces may have moved."""
    if text.startswith(before) or before.startswith(text):
        return min(len(before), len(text))
    signs = sum(not sign.isspace() for sign in before)
    for place, sign in enumerate(text):
        if not signs:
            return place
        signs -= not sign.isspace()
    return len(text)


def _overhang(text: str, string: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``string``."""
    return next((n for n in range(min(len(string) - 1, len(text)), 0, -1) if text.endswith(string[:n])), 0)


def shortened(text: str, tokenizer: Tokenizer, most: int) -> str:
    """The longest beginning of whole words (or else of characters) with at most ``most`` tokens, marks included."""
    words = text.split(" ")
    cuts = [" ".join(words[:count]) for count in range(len(words), 0, -1)] + [text[:count] for count in range(len(text), 0, -1)]
    return next((cut for cut in cuts if cut.strip() and len(tokenizer.encode(cut)) + MARKS <= most), "")


def beginning(items: Any, tokenizer: Tokenizer, most: int) -> str:
    """The beginning of prepared data, whatever their kind: of the text, or of the first text, question or source."""
    if hasattr(items, "tokens"):
        return shortened(tokenizer.decode([int(token) for token in items.tokens[: 2 * most]]).strip(), tokenizer, most)
    texts: Sequence[str] = next(
        (getattr(items, name) for name in ("texts", "questions", "sources") if hasattr(items, name)), ()
    )
    return shortened(str(texts[0]), tokenizer, most) if len(texts) else ""
