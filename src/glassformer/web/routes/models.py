"""Models: streaming generation with the alternatives of each token, question answering, tokenization."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from glassformer.foundation.config import Config
from glassformer.foundation.errors import UsageError
from glassformer.runs.directory import RunDirectory
from glassformer.web.app_state import AppState, state_of
from glassformer.web.replies import body, dumped, error_reply, reply, text_of, word

LONGEST_TEXT = 20_000
"""Characters of a text that is shown in tokens."""
MOST_BEAMS = 100
"""The largest beam width."""
LONGEST_WORD, MOST_SYMBOLS = 200, 1000
"""Symbols of a word, and of all words, whose merges are shown one by one: what that takes grows with a word's square."""


class Generation(Config):
    """The request; rules as in ``glassformer generate``."""

    run: str
    prompt: str = ""
    max_new_tokens: int = 200
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0
    seed: int = 0
    checkpoint: str | int = "last"


async def generate(request: Request) -> Response:
    """Lines of JSON: ``{"piece"}`` as the text grows, then ``{"sample", "tokens"}``; an error is the last line."""
    state, values = state_of(request), await body(request)
    wanted = Generation.parse(values)
    if not 0 <= wanted.max_new_tokens <= 5000:
        raise UsageError(f"max_new_tokens={wanted.max_new_tokens} cannot be used here: give 0 to 5000.")
    directory = state.place.run(wanted.run)
    return StreamingResponse(_lines(state, directory, wanted), media_type="application/x-ndjson")


async def _lines(state: AppState, directory: RunDirectory, wanted: Generation) -> AsyncIterator[str]:
    try:
        async for line in state.worker.stream(lambda say: _generate(state, directory, wanted, say)):
            yield dumped(line) + "\n"
    except Exception as error:
        yield bytes(error_reply(error).body).decode() + "\n"


def _generate(state: AppState, directory: RunDirectory, wanted: Generation, say: Callable[[Any], None]) -> None:
    from glassformer.generation.reference import token_choices
    from glassformer.generation.texts import prompt_ids

    run = state.worker.run(directory)
    how = wanted.to_dict()
    for name in ("run", "prompt", "checkpoint"):
        how.pop(name)
    (sample,) = run.generate(wanted.prompt, checkpoint=wanted.checkpoint, on_text=lambda piece: say({"piece": piece}), **how)
    tokenizer = run.tokenizer
    choices = token_choices(run.model_at(wanted.checkpoint), prompt_ids(tokenizer, wanted.prompt), sample.ids)

    def shown(token: int) -> str:
        return tokenizer.token_text(token) if token < tokenizer.size else f"#{token}"

    tokens = [
        {
            "token": shown(one.token),
            "probability": one.probability,
            "alternatives": [{"token": shown(token), "probability": chance} for token, chance in one.alternatives],
        }
        for one in choices
    ]
    say({"sample": sample.to_dict(), "tokens": tokens})


class Question(Config):
    """The request; rules as in ``glassformer ask``."""

    run: str
    questions: list[str]
    beams: int = 5
    abstain_below: float | None = None
    abstain: bool = False
    checkpoint: str | int = "last"


async def ask(request: Request) -> Response:
    """The JSON that ``glassformer ask --json`` prints."""
    state, wanted = state_of(request), Question.parse(await body(request))
    directory = state.place.run(wanted.run)
    if not 1 <= wanted.beams <= MOST_BEAMS:
        raise UsageError(f"beams={wanted.beams} cannot be used here: give 1 to {MOST_BEAMS}.")

    def answer() -> dict[str, Any]:
        run = state.worker.run(directory)
        items = run.question_texts(wanted.questions)
        below, by_rule = wanted.abstain_below, wanted.abstain
        found = run.ask(items, beams=wanted.beams, abstain_below=below, abstain=by_rule, checkpoint=wanted.checkpoint)
        return {"answers": [one.to_dict() for one in found]}

    return reply(await state.worker.do(answer))


async def tokens(request: Request) -> Response:
    """How a run's tokenizer merges a text step by step: the JSON of ``glassformer tokenizer show``."""
    state = state_of(request)
    directory, text = state.place.run(word(request, "run")), word(request, "text")
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"The text has {len(text)} characters; up to {LONGEST_TEXT} are shown here.")

    def read() -> dict[str, Any]:
        from glassformer.data.tokenizers.files import load_tokenizer
        from glassformer.data.tokenizers.inspection import follow

        tokenizer = load_tokenizer(directory.tokenizer_file)
        ids = tokenizer.encode(text)
        shown = [{"id": one, "text": tokenizer.token_text(one) if one < tokenizer.size else f"#{one}"} for one in ids]
        words = follow(tokenizer, text, longest=LONGEST_WORD, most=MOST_SYMBOLS)
        left = sum(word["steps"] is None for word in words)
        limit = f"merges are shown for words of up to {LONGEST_WORD} symbols, and {MOST_SYMBOLS:,} symbols in all"
        note = f"{left} of {len(words)} words are not followed: {limit}." if left else None
        return {"kind": tokenizer.kind, "size": tokenizer.size, "tokens": shown, "words": words, "note": note}

    return reply(await run_in_threadpool(read))


async def abilities(request: Request) -> Response:
    """The abilities of a run: whether it generates, whether it answers, its checkpoints and film."""
    state = state_of(request)
    directory = state.place.run(word(request, "run"))
    values = directory.read_recipe()
    objective, model = values.get("objective"), values.get("model") or {}
    kind = objective.get("kind") if isinstance(objective, dict) else objective
    texts = text_of({"objective": kind or "next-token"}, "objective")
    film: list[int] = getattr(directory, "film", list)()
    return reply(
        {
            "objective": texts,
            "generates": bool(model.get("causal", True)) and texts not in ("labels", "retrieval"),
            "answers": "answers" in str(objective),
            "checkpoints": directory.steps(),
            "film": film,
            "layers": model.get("layers"),
            "heads": model.get("heads"),
            "context": model.get("context"),
        }
    )


ROUTES = [
    Route("/api/generate", generate, methods=["POST"]),
    Route("/api/ask", ask, methods=["POST"]),
    Route("/api/tokens", tokens, methods=["GET"]),
    Route("/api/run/abilities", abilities, methods=["GET"]),
]
