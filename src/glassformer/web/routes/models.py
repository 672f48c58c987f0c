"""Models: streaming generation with the alternatives of each token, question answering, translation, tokenization."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from glassformer.foundation.config import Config
from glassformer.foundation.errors import UsageError
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import abilities_of
from glassformer.web.app_state import AppState, json_route, state_of
from glassformer.web.replies import body, dumped, error_reply, text_of

LONGEST_TEXT = 20_000
"""Characters of a text that is shown in tokens."""
MOST_BEAMS = 100
"""The largest beam width."""
LONGEST_WORD, MOST_SYMBOLS = 200, 1000
"""Symbols of a word, and of all words, whose merges are shown one by one: what that takes grows with a word's square."""


class GenerateRequest(Config):
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
    options = GenerateRequest.parse(values)
    if not 0 <= options.max_new_tokens <= 5000:
        raise UsageError(f"max_new_tokens={options.max_new_tokens} cannot be used here: give 0 to 5000.")
    directory = state.folder.run(options.run)
    return StreamingResponse(_lines(state, directory, options), media_type="application/x-ndjson")


async def _lines(state: AppState, directory: RunDirectory, options: GenerateRequest) -> AsyncIterator[str]:
    try:
        async for line in state.worker.stream(lambda say: _generate(state, directory, options, say)):
            yield dumped(line) + "\n"
    except Exception as error:
        yield bytes(error_reply(error).body).decode() + "\n"


def _generate(state: AppState, directory: RunDirectory, options: GenerateRequest, say: Callable[[Any], None]) -> None:
    from glassformer.generation.reference import token_choices
    from glassformer.generation.texts import prompt_ids

    run = state.worker.run(directory)
    how = options.to_dict()
    for name in ("run", "prompt", "checkpoint"):
        how.pop(name)
    (sample,) = run.generate(options.prompt, checkpoint=options.checkpoint, on_text=lambda piece: say({"piece": piece}), **how)
    tokenizer = run.tokenizer
    choices = token_choices(run.model_at(options.checkpoint), prompt_ids(tokenizer, options.prompt), sample.ids)

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


class AskRequest(Config):
    """The request; rules as in ``glassformer ask``."""

    run: str
    questions: list[str]
    beams: int = 5
    abstain_below: float | None = None
    abstain: bool = False
    checkpoint: str | int = "last"


def ask(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The JSON that ``glassformer ask --json`` prints."""
    options = AskRequest.parse(values)
    if not 1 <= options.beams <= MOST_BEAMS:
        raise UsageError(f"beams={options.beams} cannot be used here: give 1 to {MOST_BEAMS}.")
    run = state.worker.run(state.folder.run(options.run))
    answers = run.ask(
        run.question_texts(options.questions),
        beams=options.beams,
        abstain_below=options.abstain_below,
        abstain=options.abstain,
        checkpoint=options.checkpoint,
    )
    return {"answers": [one.to_dict() for one in answers]}


class TranslateRequest(Config):
    """The request; rules as in ``glassformer translate``."""

    run: str
    texts: list[str]
    beams: int = 4
    checkpoint: str | int = "last"


def translate(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The JSON that ``glassformer translate --json`` prints."""
    options = TranslateRequest.parse(values)
    if not 1 <= options.beams <= MOST_BEAMS:
        raise UsageError(f"beams={options.beams} cannot be used here: give 1 to {MOST_BEAMS}.")
    run = state.worker.run(state.folder.run(options.run))
    found = run.translate(options.texts, beams=options.beams, checkpoint=options.checkpoint)
    return {"translations": [one.to_dict() for one in found]}


def tokens(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """How a run's tokenizer merges a text step by step: the JSON of ``glassformer tokenizer show``."""
    from glassformer.data.tokenizers.files import load_tokenizer
    from glassformer.data.tokenizers.inspection import follow

    directory, text = state.folder.run(text_of(values, "run")), text_of(values, "text")
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"The text has {len(text)} characters; up to {LONGEST_TEXT} are shown here.")
    tokenizer = load_tokenizer(directory.tokenizer_file)
    ids = tokenizer.encode(text)
    shown = [{"id": one, "text": tokenizer.token_text(one) if one < tokenizer.size else f"#{one}"} for one in ids]
    words = follow(tokenizer, text, longest=LONGEST_WORD, most=MOST_SYMBOLS)
    left = sum(word["steps"] is None for word in words)
    limit = f"merges are shown for words of up to {LONGEST_WORD} symbols, and {MOST_SYMBOLS:,} symbols in all"
    note = f"{left} of {len(words)} words are not followed: {limit}." if left else None
    return {"kind": tokenizer.kind, "size": tokenizer.size, "tokens": shown, "words": words, "note": note}


def abilities(state: AppState, values: dict[str, Any]) -> dict[str, Any]:
    """The abilities of a run: whether it generates, whether it answers, its checkpoints and film."""
    directory = state.folder.run(text_of(values, "run"))
    return {**abilities_of(directory.read_recipe()), "checkpoints": directory.steps(), "film": directory.film()}


ROUTES = [
    Route("/api/generate", generate, methods=["POST"]),
    json_route("POST", "/api/ask", ask, worker=True),
    json_route("POST", "/api/translate", translate, worker=True),
    json_route("GET", "/api/tokens", tokens),
    json_route("GET", "/api/run/abilities", abilities),
]
