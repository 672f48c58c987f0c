"""Prompts as text -> texts that continue them: the tokenizer around the generation of ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.seeds import derive_seed
from glassformer.generation.generate import generate
from glassformer.generation.stop_strings import StopStrings
from glassformer.generation.streaming_decode import PiecesOfText


@dataclass(frozen=True)
class Sample:
    """One generated text."""

    prompt: str
    text: str
    tokens: int
    ended: str
    ids: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"prompt": self.prompt, "text": self.text, "tokens": self.tokens, "ended": self.ended}


def generate_texts(
    model: Any,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    *,
    seed: int,
    stop: Sequence[str] = (),
    stop_ids: Sequence[int] = (),
    on_text: Callable[[str], None] | None = None,
    exact_pieces: bool = False,
    say: Callable[[str], None] | None = None,
    **how: Any,
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
    pieces = None if on_text is None else PiecesOfText(decode, on_text, ending, tokenizer.settled, exact=exact_pieces)
    results = generate(
        model,
        [prompt_ids(tokenizer, prompt) for prompt in prompts],
        seeds=[derive_seed(seed, "prompt", row) for row in range(len(prompts))],
        stop_ids=stop_ids or ([] if tokenizer.stop_id is None else [tokenizer.stop_id]),
        stop=ending if stop else None,
        on_token=pieces,
        start_id=tokenizer.start_id,
        **how,
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
    """An empty prompt begins like a document: with the start mark, or else with a line break."""
    if prompt or tokenizer.start_id is not None:
        start = [] if tokenizer.start_id is None else [tokenizer.start_id]
        return [*start, *tokenizer.encode(prompt)]
    return tokenizer.encode("\n")
