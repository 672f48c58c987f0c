"""The Run a user holds: one object to look at, to measure, to talk to; read from its folder, whoever trained it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from glassformer.checks.report import CheckReport
from glassformer.data.prepare import Prepared, prepare, tokens_of_file, tokens_of_text
from glassformer.data.stop_strings import StopStrings
from glassformer.data.streams import PiecesOfText
from glassformer.data.token_files import TokenSplit
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.evaluation.documents import DocumentLosses, EvaluatedText, word_weights
from glassformer.evaluation.results import Evaluation
from glassformer.foundation.errors import ConfigError, RunError, UsageError
from glassformer.foundation.files import read_json, release_pages, write_json
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import choose_device, choose_precision
from glassformer.foundation.seeds import derive_seed
from glassformer.gate import pass_the_checks, taint_of
from glassformer.generation.generate import generate
from glassformer.measuring import LanguageRuler, write_predictions
from glassformer.model.kernels import read_triton_ahead
from glassformer.model.transformer import Transformer, build_model
from glassformer.recipe import Recipe
from glassformer.runs.checkpoint import Checkpoint, load_to_read, newest_to_read
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import last_validation_loss, standing_of
from glassformer.runs.records import MetricsLog

COUNTED_AT_ONCE = 1 << 22


def load(folder: Path | str, *, plugins: Sequence[Path | str] = (), watch: Watcher = SILENT) -> Run:
    """The run in ``folder``. A run made with plugins asks for them; they are never run because the folder names them."""
    load_plugins(plugins)
    directory = RunDirectory(Path(folder))
    directory.require()
    return Run(directory, watch)


def load_weights(model: Transformer, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Puts saved weights into a model; anything that does not fit is a sentence."""
    own = model_tensors(model)
    wrong = [
        name for name in {*own, *tensors} if name not in own or name not in tensors or own[name].shape != tensors[name].shape
    ]
    if wrong:
        raise ConfigError(
            f"The weights of {origin} do not fit this model: {', '.join(sorted(wrong)[:3])} differ in name or shape."
        )
    for name, tensor in own.items():
        tensor.data.copy_(tensors[name])


def untrained_model(recipe: Recipe, data: Prepared) -> Transformer:
    """The model of a recipe before its first step."""
    model = build_model(recipe.model, data.tokenizer.size, seed=recipe.seed)
    if model.wants_counts:
        model.start_from_counts(torch.from_numpy(_counts(data.split("train").tokens, data.tokenizer.size)))
    return model


def _counts(tokens: np.ndarray, vocabulary: int) -> np.ndarray:
    """How often each token occurs; the tokens may be larger than memory."""
    counts_V = np.zeros(vocabulary, dtype=np.int64)
    for at in range(0, len(tokens), COUNTED_AT_ONCE):
        counts_V += np.bincount(tokens[at : at + COUNTED_AT_ONCE], minlength=vocabulary)
        release_pages(tokens)
    return counts_V


def model_tensors(model: Transformer) -> dict[str, Tensor]:
    """Everything a checkpoint keeps of a model, each tensor once."""
    kept: dict[str, Tensor] = dict(model.named_parameters())
    persistent = model.state_dict().keys()
    kept.update((name, buffer) for name, buffer in model.named_buffers() if name in persistent)
    return kept


def evaluated_text(split: TokenSplit, tokenizer: Tokenizer) -> EvaluatedText:
    """A split as evaluation wants it."""
    weights = None
    if split.num_documents == 1:  # blocks of the only document must know where its words begin
        weights = word_weights([tokenizer.decode([token_id]) for token_id in range(tokenizer.size)])
    return EvaluatedText(
        tokens=split.tokens,
        starts=split.starts,
        byte_lengths=tokenizer.byte_lengths(),
        words=split.documents["words"],
        characters=split.documents["characters"],
        text_bytes=split.documents["bytes"],
        word_weights=weights,
        unknown_id=tokenizer.unknown_id,
    )


@dataclass(frozen=True)
class Sample:
    """One generated text."""

    prompt: str
    text: str
    tokens: int
    ended: str

    def plain(self) -> dict[str, Any]:
        return {"prompt": self.prompt, "text": self.text, "tokens": self.tokens, "ended": self.ended}


@final
class Run:
    """A run by its folder. Nothing is read before it is asked for; looking changes nothing but records of test openings."""

    def __init__(self, directory: RunDirectory, watch: Watcher = SILENT) -> None:
        self.directory, self._watch = directory, watch
        self._said: set[str] = set()
        self._rulers: dict[tuple[int, bool], LanguageRuler] = {}
        self._kept_writer: tuple[tuple[int, str], Transformer] | None = None

    @property
    def folder(self) -> Path:
        return self.directory.root

    @cached_property
    def recipe(self) -> Recipe:
        try:
            return Recipe.parse(self.directory.read_recipe())
        except ConfigError as error:
            plugins = [plugin["file"] for plugin in self.directory.read_environment().get("plugins", [])]
            hint = f" It was made with --plugin {' --plugin '.join(plugins)}: give them again." if plugins else ""
            raise RunError(f"{self.directory.recipe_file}: {error}{hint}") from error

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.directory.tokenizer_file)

    @cached_property
    def data(self) -> Prepared:
        return prepare(self.recipe.data, self.tokenizer, expect=self.directory.read_environment().get("data"))

    @property
    def model(self) -> Transformer:
        """The model of the last checkpoint, on the CPU, in evaluation mode."""
        return self.model_at("last")

    @property
    def status(self) -> str:
        return str(standing_of(self.directory)["status"])

    @property
    def tainted(self) -> str | None:
        """Why no figure of this run may be trusted, or None."""
        return self.directory.read_environment().get("tainted")

    def metrics(self) -> list[dict[str, Any]]:
        """Every record of the run, in order."""
        return MetricsLog(self.directory.metrics_file).read()

    def checkpoint(self, which: str | int = "last") -> Checkpoint:
        """``last``, ``best``, or a step. Where no optimizer file is whole, the weights alone; that is said."""
        steps = self.directory.steps()
        if which == "last":
            found = newest_to_read(self.directory, self._say_once)
            if found is None:
                raise RunError(f"{self.folder} has no whole checkpoint yet.")
            return found
        step = self._best_step() if which == "best" else which
        if not str(step).isdigit():
            raise UsageError(f"--checkpoint {which!r} must be best, last or a step.")
        if int(step) not in steps:
            raise RunError(f"{self.folder} has no checkpoint of step {step}; it has {', '.join(map(str, steps)) or 'none'}.")
        return load_to_read(self.directory.checkpoint(int(step)), self._say_once)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._watch.say(sentence)

    def _best_step(self) -> int:
        best: int | None = self.checkpoint("last").state.get("best_step")
        if best is None or best not in self.directory.steps():
            raise RunError(
                f"{self.folder} kept no best checkpoint; train with --set checkpoint.best=true, or use --checkpoint last."
            )
        return best

    def model_at(self, which: str | int = "last") -> Transformer:
        return self._loaded(which)[0]

    def _loaded(self, which: str | int) -> tuple[Transformer, int]:
        checkpoint = self.checkpoint(which)
        return self._model_of(checkpoint), checkpoint.step

    def _model_of(self, checkpoint: Checkpoint) -> Transformer:
        model = build_model(self.recipe.model, self.tokenizer.size, seed=self.recipe.seed)
        load_weights(model, checkpoint.model, f"step {checkpoint.step}")
        return model.eval()

    def untrained(self) -> Transformer:
        """The model as it was before the first step."""
        return untrained_model(self.recipe, self.data).eval()

    def evaluate(
        self,
        split: str = "validation",
        *,
        data: Path | str | None = None,
        checkpoint: str | int = "last",
        predictions: Path | None = None,
        allow_leaks: bool = False,
        checked: CheckReport | None = None,
        watch: Watcher = SILENT,
    ) -> Evaluation:
        """Figures with intervals beside the baselines, of a split or of a file. Opening ``test`` is recorded in the run.

        ``split``: train, validation or test; where there are several test files, ``test:NAME`` is one of them.
        ``checked``: what a check of the same architecture found; without it the model is checked here.
        """
        if data is not None:
            name, part, notes = str(data), tokens_of_file(self.tokenizer, data, self.recipe.data), []
        else:
            name, part, notes = split, self.data.split(split), self.data.notes
        ruler = self._ruler(checkpoint, allow_leaks=allow_leaks, checked=checked, watch=watch)
        if data is None and split.partition(":")[0] == "test":
            self.directory.record_opening(step=ruler.step, split=split)
        if predictions is not None:
            write_predictions(predictions, ruler.model, part.tokens, self.tokenizer)
        return ruler.measure(name, evaluated_text(part, self.tokenizer), notes=notes, watch=watch)

    def evaluation(
        self,
        split: str = "validation",
        *,
        allow_leaks: bool = False,
        checked: CheckReport | None = None,
        watch: Watcher = SILENT,
    ) -> Evaluation:
        """The last checkpoint's figures on ``split``, measured once and kept in the run with the losses by document."""
        steps = self.directory.steps()
        if not steps:
            raise RunError(f"{self.folder} has no whole checkpoint yet.")
        file = self.directory.evaluation_file(split, steps[-1])
        if not file.is_file():
            result = self.evaluate(split, allow_leaks=allow_leaks or self.tainted is not None, checked=checked, watch=watch)
            assert result.losses is not None
            losses = {name: values.tolist() for name, values in result.losses.arrays().items()}
            write_json(file, {"schema": RunDirectory.SCHEMA, **result.plain(), "losses": losses})
        document = read_json(file)
        return replace(Evaluation.from_plain(document), losses=DocumentLosses.from_arrays(document["losses"]))

    def evaluate_texts(
        self, texts: Sequence[str], *, checkpoint: str | int = "last", allow_leaks: bool = False, watch: Watcher = SILENT
    ) -> list[Evaluation]:
        """The same for single texts, each on its own: no text sees another."""
        ruler = self._ruler(checkpoint, allow_leaks=allow_leaks, watch=watch)
        parts = [tokens_of_text(self.tokenizer, text) for text in texts]
        return [ruler.measure(text, evaluated_text(part, self.tokenizer), watch=watch) for text, part in zip(texts, parts)]

    def evaluate_own_texts(
        self, *, checkpoint: str | int = "last", allow_leaks: bool = False, watch: Watcher = SILENT
    ) -> dict[str, Evaluation]:
        """The texts of the recipe (``evaluation.texts``) by name, each on its own."""
        texts = self.recipe.evaluation.texts
        if not texts:
            return {}
        found = self.evaluate_texts(list(texts.values()), checkpoint=checkpoint, allow_leaks=allow_leaks, watch=watch)
        return {name: replace(result, name=name) for name, result in zip(texts, found)}

    def _ruler(
        self, checkpoint: str | int, *, allow_leaks: bool, checked: CheckReport | None = None, watch: Watcher
    ) -> LanguageRuler:
        """What measures the model of a checkpoint, once it has passed the checks; kept, since both take their time."""
        model, step = self._loaded(checkpoint)
        if (step, allow_leaks) in self._rulers:
            return self._rulers[step, allow_leaks]
        report = checked or pass_the_checks(model, allow_leaks=allow_leaks, watch=watch)
        training, device = self.data.split("train").tokens, choose_device("auto")
        tainted = taint_of(report) or self.tainted
        ruler = LanguageRuler(model.to(device), self.untrained().to(device), training, step=step, tainted=tainted)
        self._rulers = {(step, allow_leaks): ruler}
        return ruler

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        *,
        max_new_tokens: int = 200,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
        checkpoint: str | int = "last",
        precision: str = "float32",
        on_text: Callable[[str], None] | None = None,
        watch: Watcher = SILENT,
    ) -> list[Sample]:
        """Texts that continue the prompts, each from a seed of its own. ``on_text`` gets pieces of one text as they come.

        ``precision``: float32 gives exactly the texts of the definition; bf16 (on a GPU several times as fast) those of a
        model rounded to it.
        """
        given = [prompts] if isinstance(prompts, str) else list(prompts)
        tokenizer = self.tokenizer
        ending = StopStrings(tokenizer.decode, stop)
        pieces = None if on_text is None else PiecesOfText(tokenizer.decode, on_text, ending)
        results = generate(
            self._writer(checkpoint, precision, watch),
            [self._prompt_ids(prompt) for prompt in given],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            seeds=[derive_seed(seed, "prompt", row) for row in range(len(given))],
            stop_ids=[] if tokenizer.stop_id is None else [tokenizer.stop_id],
            stop=ending if stop else None,
            on_token=pieces,
            start_id=tokenizer.start_id,
        )
        if pieces is not None:
            pieces.finish()
        return [
            Sample(prompt, ending.cut(tokenizer.decode(result.ids)), len(result.ids), result.reason)
            for prompt, result in zip(given, results)
        ]

    def _writer(self, checkpoint: str | int, precision: str, watch: Watcher) -> Transformer:
        """The model that writes: the last one where it is the same, with all that was made ready for it."""
        if precision not in ("float32", "bf16"):
            raise UsageError(f"precision={precision!r} cannot be used: choose float32 or bf16.")
        device = choose_device("auto")
        kind, remarks = choose_precision(precision, device)
        for remark in remarks:
            watch.say(remark)
        found = self.checkpoint(checkpoint)
        made_for = (found.step, kind)
        if self._kept_writer is None or self._kept_writer[0] != made_for:
            read_triton_ahead(device, kind)
            model = self._model_of(found).to(device, torch.bfloat16 if kind == "bf16" else torch.float32)
            self._kept_writer = (made_for, model)
        return self._kept_writer[1]

    def _prompt_ids(self, prompt: str) -> list[int]:
        """An empty prompt begins like a document: with the start mark, or else with a line break."""
        if prompt or self.tokenizer.start_id is not None:
            start = [] if self.tokenizer.start_id is None else [self.tokenizer.start_id]
            return [*start, *self.tokenizer.encode(prompt)]
        return self.tokenizer.encode("\n")

    def summary(self) -> dict[str, Any]:
        """The run in a few plain figures."""
        standing = standing_of(self.directory)
        evaluations = [record for record in self.metrics() if "validation_loss" in record]
        return {
            "run": str(self.folder),
            "status": standing["status"],
            "step": standing.get("step"),
            "steps": standing.get("steps"),
            "validation_loss": last_validation_loss(self.directory),
            "seconds": evaluations[-1]["seconds"] if evaluations else None,
            "tainted": self.tainted is not None,
        }

    def __repr__(self) -> str:
        summary = self.summary()
        loss = summary["validation_loss"]
        figure = "" if loss is None else f", validation loss {loss:.4f}"
        return f"Run({str(self.folder)!r}, {summary['status']} at step {summary['step']}{figure})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(key)}</th><td>{escape(str(value))}</td></tr>" for key, value in self.summary().items())
        return f"<table>{rows}</table>"
