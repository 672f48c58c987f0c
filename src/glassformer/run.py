"""``Run``: a trained model with its tokenizer, recipe and records; evaluate, generate, ask, look. Read from its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np
import torch

from glassformer import assembly
from glassformer.checking.gate import check_key, require_generation, require_network, taint_of
from glassformer.checks.check_report import CheckReport
from glassformer.data.data_kinds import PreparedData, data_kind
from glassformer.data.groups import groups_of
from glassformer.data.labels.label_batches import encode_texts
from glassformer.data.labels.labelled_texts import KINDS
from glassformer.data.pairs.pair_batches import encode_pairs, written_text
from glassformer.data.token_files import TokenSplit
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.files import load_tokenizer
from glassformer.data.tokenizers.two import target_side
from glassformer.evaluation.abstaining import AbstainRule, Answer, AskOptions
from glassformer.evaluation.decision import Reference
from glassformer.evaluation.interval_estimates import TwoCheckpoints, paired
from glassformer.evaluation.results import Baseline, Evaluation, Evaluator, Outcomes, save_evaluation, saved_evaluation
from glassformer.evaluation.token_losses import token_losses
from glassformer.foundation.errors import BadArgument, ConfigError, GlassformerError, RunError, UsageError
from glassformer.foundation.files import write_atomically
from glassformer.foundation.plugins import load_plugins
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime, choose_device, generation_precision
from glassformer.generation.sampling import Sampling
from glassformer.generation.texts import Sample, beginning, generate_texts, prompt_ids
from glassformer.generation.translation import Translation
from glassformer.lens.look import Look
from glassformer.model.kernels import read_triton_ahead
from glassformer.model.network import MODELS, Network
from glassformer.networks.classifier_import import cached_classifier, is_classifier
from glassformer.networks.onnx_export import export_onnx
from glassformer.objectives.base import ObjectiveConfig
from glassformer.prediction import Prediction, Predictor, fit_reference
from glassformer.pretrained.adapter_export import Answers
from glassformer.pretrained.exporting import Exported, export, model_card
from glassformer.pretrained.folders import is_folder
from glassformer.pretrained.importing import cached_run
from glassformer.recipe import Recipe, load_recipe
from glassformer.runs.baselines_file import load_packed, packed
from glassformer.runs.checkpoint import (
    MODEL,
    Checkpoint,
    checkpoint_checksums,
    last_checkpoint,
    load_for_inference,
    read_snapshot,
    step_named,
)
from glassformer.runs.diagnosis import Finding, diagnosis_of
from glassformer.runs.directory import RunDirectory
from glassformer.runs.overview import in_html, in_one_line, progress_of, summary_of
from glassformer.runs.records import MetricsLog, frame_of
from glassformer.runs.weights import load_weights, saved_tensors, take_weights

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


def load(folder: Path | str, *, plugins: Sequence[Path | str] = (), recheck: bool = True, watch: Watcher = SILENT) -> Run:
    """Opens the run in ``folder``, or a Hugging Face model's folder (imported into the cache), and returns it as a ``Run``.

    ``plugins``: the files a run was trained with; none is loaded because a folder names it. With ``recheck`` false,
    ``evaluate`` accepts a check of the same weights and build that passed before. ``watch`` gets sentences and progress.

    ```python
    run = gf.load("runs/example")
    print(run.status, run.recipe.model.width)
    ```
    """
    load_plugins(plugins)
    directory = RunDirectory(Path(folder))
    if not directory.exists() and is_folder(folder):
        directory = cached_classifier(folder) if is_classifier(folder) else cached_run(folder)
    directory.require()
    return Run(directory, watch, recheck=recheck)


@final
class Run:
    """A trained run, from ``train`` or ``load``: its model, tokenizer, recipe and records, each read on first use.

    Arguments that mean the same in every method: ``checkpoint`` (or ``which``) is "last", "best" or the number of a step;
    ``model`` an altered model in place of the checkpoint's own; ``allow_leaks`` measures a model that fails a check and marks
    the figures as tainted; ``watch`` gets sentences and progress. Using the test split is recorded.

    ```python
    run = gf.load("runs/example")
    print(run.evaluate().metrics["loss"])  # value, and the ends of a 95 % interval
    print(run.generate(["The ", "Return "], max_new_tokens=20)[1].text)
    print(run.token_losses("Return the name.").mean())
    print(run.look("Return the name.").attention.shape)  # layer, head, query, key
    ```
    """

    def __init__(self, directory: RunDirectory, watch: Watcher = SILENT, *, recheck: bool = True) -> None:
        self.directory, self._watch, self._recheck = directory, watch, recheck
        self._said: set[str] = set()
        self._models: dict[int, Network] = {}
        self._made: dict[str, tuple[tuple[Any, ...], Any]] = {}
        self._referred: Reference | None = None

    @property
    def folder(self) -> Path:
        """Where everything about the run is stored."""
        return self.directory.root

    @cached_property
    def recipe(self) -> Recipe:
        """The whole recipe that was trained, defaults included."""
        return assembly.recorded_recipe(self.directory, self._say_once)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """``encode`` makes ids of a text, ``decode`` a text of ids; ``size`` is the number of ids."""
        return load_tokenizer(self.directory.tokenizer_file)

    @cached_property
    def data(self) -> PreparedData:
        """The data it was trained and validated on, read again; raises if they have changed."""
        return assembly.prepare_data(self.recipe, self.tokenizer, expect=self.directory.read_environment().get("data"))

    @property
    def model(self) -> Any:
        """The model of the last checkpoint, on the CPU, in evaluation mode; the same object each time, which you may modify."""
        return self.model_at("last")

    @property
    def status(self) -> str:
        """running, finished, stopped, killed, failed, diverged or imported."""
        return str(progress_of(self.directory)["status"])

    @property
    def tainted(self) -> str | None:
        """Why no figure of this run can be trusted, or None."""
        return self.directory.read_environment().get("tainted")

    @property
    def ancestry(self) -> list[dict[str, Any]]:
        """The runs whose weights this one started from, the nearest first."""
        return list(self.directory.read_environment().get("ancestry", []))

    def records(self) -> list[dict[str, Any]]:
        """Every record of the run, in order: a step's, an evaluation's."""
        return MetricsLog(self.directory.metrics_file).read(self._say_once)

    def metrics(self) -> pandas.DataFrame:
        """The records as a pandas DataFrame, a row per step: the validation metrics of a step stand beside its loss."""
        by_step: dict[int, dict[str, Any]] = {}
        for record in self.records():
            by_step.setdefault(record["step"], {}).update(record)
        return frame_of(list(by_step.values()))

    def checkpoint(self, which: str | int = "last") -> Checkpoint:
        """A checkpoint's weights and state. Without optimizer state if no optimizer file is intact, which is reported."""
        if which == "last":
            return last_checkpoint(self.directory, self._say_once)
        return load_for_inference(self.directory.checkpoint(step_named(self.directory, which, self._say_once)), self._say_once)

    def _step_of(self, which: str | int) -> int | None:
        """The step of ``last`` (None without a checkpoint; where that is damaged, ``checkpoint`` reads another), ``best``, or
        a number."""
        if which == "last":
            return max(self.directory.steps(), default=None)
        return step_named(self.directory, which, self._say_once)

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._watch.say(sentence)

    def model_at(self, which: str | int = "last") -> Any:
        """The model of a checkpoint; cached."""
        step = self._step_of(which)
        if step not in self._models:
            checkpoint = self.checkpoint(which)
            step = checkpoint.step
            self._models.setdefault(step, self._fresh_model(checkpoint))
        return self._models[step]

    def _cached(self, what: str, which: str | int, make: Callable[[Checkpoint], T], *settings: Any) -> T:
        """What ``make`` gives of a checkpoint with these settings; the last one of each kind is cached: it takes time."""
        known, made = self._made.get(what, ((), None))
        if known == (self._step_of(which), *settings):
            return made
        found = self.checkpoint(which)
        if known != (found.step, *settings):  # else the newest is damaged
            made = make(found)
            self._made[what] = (found.step, *settings), made
        return made

    def _fresh_model(self, checkpoint: Checkpoint, recipe: Recipe | None = None) -> Network:
        """An unmodified network of a checkpoint. ``recipe``: another one with the same weights."""
        outputs = self.directory.read_environment("outputs")["outputs"]
        recipe = recipe or self.recipe
        return assembly.restored_network(recipe, checkpoint, vocabulary=self.tokenizer.size, outputs=outputs).eval()

    @property
    def _data_record(self) -> dict[str, Any] | None:
        """The run's record of its data."""
        return self.directory.read_environment().get("data")

    def save_pretrained(
        self, folder: Path | str, *, checkpoint: str | int = "last", merge: bool = False, bare: bool = False
    ) -> Exported:
        """Writes the model to ``folder``, which transformers opens; raises naming parts that no class there has.

        A tuned encoder's adapter is written in peft's format; ``merge``: as one plain folder instead. ``bare``: a head that
        transformers has no class for is written beside the encoder.
        """
        found = self.checkpoint(checkpoint)
        network: Any = self._fresh_model(found)
        if hasattr(network, "save_pretrained"):

            def card(class_name: str, loading: str, notes: Sequence[str]) -> str:
                parameters = sum(parameter.numel() for parameter in network.parameters())
                return model_card(
                    self.directory, class_name, parameters=parameters, step=found.step, notes=notes, loading=loading
                )

            return network.save_pretrained(Path(folder), answers=self._answers, merge=merge, bare=bare, card=card)
        return export(self.directory, network, self.tokenizer, Path(folder), step=found.step)

    def save_onnx(self, folder: Path | str, *, checkpoint: str | int = "last") -> Exported:
        """Writes a classifier to ``folder`` for onnxruntime, compared with the network before it gets its name."""
        network, reference = self._fresh_model(self.checkpoint(checkpoint)), None
        if self.recipe.objective.ask_reads in KINDS:
            reference = self.predictor(checkpoint).reference
        return export_onnx(
            network,
            self.tokenizer,
            Path(folder),
            answers=self._answers,
            temperature=None if reference is None else reference.temperature,
            thresholds=[] if reference is None else reference.thresholds_C.tolist(),
            pairs=self.reading_of_labels().get("pair_column") is not None,
        )

    @property
    def label_names(self) -> list[str]:
        """The labels of a classifier, in the order of its scores; empty for other runs."""
        return [str(name) for name in ((self._data_record or {}).get("labels") or {}).values()]

    @property
    def _answers(self) -> Answers:
        several = (self._data_record or {}).get("target") == "several"
        return Answers(self.label_names, several=several, scale=self._scale)

    @property
    def _scale(self) -> tuple[float, float] | None:
        """Of a run that predicts numbers: the mean and the standard deviation of the training ones."""
        scale = (self._data_record or {}).get("scale")
        return None if scale is None else (float(scale[0]), float(scale[1]))

    def reading_of_labels(self) -> dict[str, Any]:
        """How the labelled files were read: their columns."""
        return dict((self._data_record or {}).get("reading") or {})

    def altered(self, changes: Mapping[str, Any], checkpoint: str | int = "last") -> Network:
        """The network of a checkpoint with ``changes`` of its recipe (``{"model.merge": "shuffle"}``), on the same weights;
        refused where these do not fit. Give it to ``evaluate`` or ``look`` as ``model``."""
        others = [key for key in changes if not key.startswith("model.")]
        if others:
            raise UsageError(
                f"--set {others[0]} changes no part of the model; give a key that begins with model.", reason="not-a-part"
            )
        network = self._fresh_model(self.checkpoint(checkpoint), load_recipe(self.recipe, changes))
        return network.to(choose_device("auto"))

    def untrained(self, recipe: Recipe | None = None) -> Any:
        """The model as it was initialised, before any training. ``recipe``: another one with the same weights."""
        outputs, recipe = self.directory.read_environment("outputs")["outputs"], recipe or self.recipe
        network = recipe.model.network(self.tokenizer.size, outputs=outputs, seed=recipe.seed)
        if getattr(network, "needs_token_counts", False):  # only such a head needs the training text
            network = assembly.build_network(recipe, self.data)
        return network.eval()

    def evaluate(
        self,
        split: str | None = None,
        *,
        data: Path | str | None = None,
        model: Network | None = None,
        checkpoint: str | int = "last",
        predictions: Path | str | None = None,
        length: int | None = None,
        allow_leaks: bool = False,
        checked: CheckReport | None = None,
        untrained: bool = True,
        watch: Watcher = SILENT,
    ) -> Evaluation:
        """Metrics with intervals, beside trivial baselines, on a split or on a file (``data``).

        ``split``: train, validation (default), test, or test:NAME for one of several test files. Use of test is recorded.
        ``model``: an altered model (``run.model`` with a hook, or inside an intervention) instead of a checkpoint's own.
        ``predictions``: a file for one line per item. ``length``: tokens of a window, fewer or more than ``model.context``;
        more are refused where a weight belongs to one position. ``details["loss_by_position"]`` is the curve. ``checked``: the
        report of a check of the same architecture. ``untrained``: whether the network before training is measured, too. The
        last checkpoint's figures on validation are kept in the run.
        """
        if data is not None and split is not None:
            raise UsageError(
                f"--split {split} and --data {data} are both given, but a file has no splits; give one of them.",
                reason="split-and-data",
            )
        split, notes = split or "validation", tuple[str, ...]()
        if data is not None:
            kind = data_kind(self.recipe.objective.judged_on)
            name, items = (
                str(data),
                kind.of_file(self.tokenizer, data, self.recipe.data.drawn_by(self.recipe.seed), record=self._data_record),
            )
        else:
            name, items, notes = split, self.data.split(split), tuple(self.data.notes)
            if checkpoint == "best" and split == "validation":
                notes = (*notes, "The best checkpoint was selected on this text, so these figures are a little too optimistic.")
        if isinstance(items, TokenSplit) and length is not None and length > items.num_tokens:
            raise BadArgument("length", length, f"{name} has {items.num_tokens:,} tokens, so no window is longer; give fewer")
        evaluator = self._evaluator(
            checkpoint,
            model=model,
            length=length,
            allow_leaks=allow_leaks,
            checked=checked,
            untrained=untrained,
            watch=watch,
        )
        if length is not None:
            notes = (*notes, f"Windows of {length} tokens; the model was trained on {self.recipe.model.context}.")
        if data is None and split.partition(":")[0] == "test":
            self.directory.record_opening(step=evaluator.step, split=split)
        if predictions is not None:
            evaluator.write_predictions(Path(predictions), items)
        result = evaluator.measure(name, items, notes=(*notes, *self._said), watch=watch)
        groups = groups_of(items, self.recipe.data) if data is None else None
        sizes = {len(one.sums) for one in (result.units or {}).values()}
        result = replace(result, groups=groups) if groups is not None and sizes == {len(groups)} else result
        if data is None and length is None and model is None and split == "validation" and checkpoint == "last":
            save_evaluation(self.directory, split, result)  # the page and the report show it
        return result

    def evaluation(
        self,
        split: str = "validation",
        *,
        allow_leaks: bool = False,
        checked: CheckReport | None = None,
        untrained: bool = True,
        watch: Watcher = SILENT,
    ) -> Evaluation:
        """The last checkpoint's metrics on ``split``, computed once and saved in the run with the sums by unit.

        ``checked``: the report of a check of the same architecture. ``untrained``: whether the network before training is
        measured, too, which takes as long as the trained one."""
        saved = saved_evaluation(self.directory, split, max(self.directory.steps(), default=0))
        saved = saved or saved_evaluation(self.directory, split, self.checkpoint("last").step)  # if the newest is damaged
        if saved is not None:
            return saved
        leaks = allow_leaks or self.tainted is not None
        result = self.evaluate(split, allow_leaks=leaks, checked=checked, untrained=untrained, watch=watch)
        return save_evaluation(self.directory, split, result)

    def against(
        self,
        other: Run,
        split: str | None = None,
        *,
        data: Path | str | None = None,
        checkpoint: str | int = "last",
        allow_leaks: bool = False,
        watch: Watcher = SILENT,
    ) -> TwoCheckpoints:
        """This run against the run ``other`` on the same items, for metrics of right and wrong (McNemar).

        ``split`` and ``data``: as in ``evaluate``."""

        def outcomes(run: Run) -> Outcomes | None:
            return run.evaluate(split, data=data, checkpoint=checkpoint, allow_leaks=allow_leaks, watch=watch).outcomes

        metric, who = assembly.chosen_metric(self.recipe), f"{self.folder} and {other.folder}"
        return paired(metric, lambda: outcomes(self), lambda: outcomes(other), who)

    def evaluate_texts(
        self,
        texts: str | Sequence[str],
        *,
        model: Network | None = None,
        checkpoint: str | int = "last",
        predictions: Path | str | None = None,
        length: int | None = None,
        allow_leaks: bool = False,
        watch: Watcher = SILENT,
    ) -> list[Evaluation]:
        """Like ``evaluate``, for each of ``texts`` alone, without the context of the others.

        ``predictions`` and ``length``: as in ``evaluate``."""
        evaluator = self._evaluator(checkpoint, model=model, length=length, allow_leaks=allow_leaks, watch=watch)
        kind = data_kind(self.recipe.objective.judged_on)
        names = [texts] if isinstance(texts, str) else list(texts)
        items = [kind.of_texts(self.tokenizer, text, record=self._data_record) for text in names]
        if predictions is not None:
            evaluator.write_predictions(Path(predictions), *items)
        return [evaluator.measure(name, one, notes=tuple(self._said), watch=watch) for name, one in zip(names, items)]

    def token_losses(self, text: str, *, model: Network | None = None, checkpoint: str | int = "last") -> np.ndarray:
        """The loss in nats of every token of ``text`` but the first, float64."""
        network = self._fresh_model(self.checkpoint(checkpoint)).to(choose_device("auto")) if model is None else model
        items = data_kind("text").of_texts(self.tokenizer, text, record=self._data_record)
        return token_losses(network, items.tokens, context=self.recipe.model.context, device=next(network.parameters()).device)

    def evaluate_own_texts(
        self,
        *,
        model: Network | None = None,
        checkpoint: str | int = "last",
        allow_leaks: bool = False,
        watch: Watcher = SILENT,
    ) -> dict[str, Evaluation]:
        """The texts of the recipe (``evaluation.texts``) by name, each on its own."""
        texts = self.recipe.evaluation.texts
        if not texts:
            return {}
        settings: dict[str, Any] = {"checkpoint": checkpoint, "allow_leaks": allow_leaks, "watch": watch}
        found = self.evaluate_texts(list(texts.values()), model=model, **settings)
        return {name: replace(result, name=name) for name, result in zip(texts, found)}

    def _evaluator(
        self,
        which: str | int,
        *,
        model: Network | None = None,
        length: int | None = None,
        allow_leaks: bool,
        checked: CheckReport | None = None,
        untrained: bool = True,
        watch: Watcher,
    ) -> Evaluator:
        """The evaluator of a checkpoint's model, which must pass the checks first."""
        recipe = self.recipe if length is None else self._recipe_at(length, model)
        objective, device = self.recipe.objective, choose_device("auto")

        def make(found: Checkpoint) -> Evaluator:
            network = self._longer_model(found, recipe) if model is None else model
            key: str | None = None
            if not self._recheck and model is None:
                runtime = Runtime(next(network.parameters()).device, "float32", torch.get_num_threads())
                key = check_key(
                    recipe.model,
                    objective.laws,
                    runtime,
                    vocabulary=network.dims.vocabulary,
                    outputs=network.dims.num_outputs,
                    trained=str(checkpoint_checksums(self.directory, found.step)),
                )
            report = checked or require_network(network, laws=objective.laws, allow_leaks=allow_leaks, key=key, watch=watch)
            return Evaluator(
                objective,
                network.to(device) if model is None else network,
                self._other_row("untrained model", lambda: self.untrained(recipe) if untrained else None, device),
                self.baselines(),
                replace(assembly.tools_for(self.recipe, self.tokenizer), context=length or self.recipe.model.context),
                step=found.step,
                tainted=taint_of(report) or (self.tainted if model is None else None),  # another network was checked itself
                parent=None if recipe is not self.recipe else self._other_row("parent", self._parent_network, device),
            )

        own = model is None and length is None
        return self._cached("evaluator", which, make, allow_leaks, untrained) if own else make(self.checkpoint(which))

    def _recipe_at(self, length: int, model: Network | None) -> Recipe:
        """The recipe for windows of ``length`` tokens: its own up to ``model.context``, beyond that one with more context."""
        objective, context = self.recipe.objective, self.recipe.model.context
        if not objective.judges_windows:
            raise UsageError(
                f"--length {length} has no effect on objective={objective.kind}, which is not measured on windows of the text; "
                "drop it.",
                reason="no-windows",
            )
        if length < 1:
            raise BadArgument("length", length, "a window has at least 1 token")
        if length <= context:
            return self.recipe
        if model is not None:
            raise BadArgument("length", length, f"an altered model reads model.context={context} tokens at most; give fewer")
        longer = MODELS.parse({**self.recipe.model.to_dict(), "context": length})
        return self.recipe.model_copy(update={"model": longer})

    def _longer_model(self, checkpoint: Checkpoint, recipe: Recipe) -> Network:
        """The model of a checkpoint with the context of ``recipe``, which has the same weights, or it is refused."""
        try:
            return self._fresh_model(checkpoint, recipe)
        except ConfigError as error:
            if recipe is self.recipe or error.reason != "weights-do-not-fit":
                raise
        new = recipe.model.shapes(self.tokenizer.size, outputs=self.directory.read_environment("outputs")["outputs"])
        own = saved_tensors(new)
        grown = sorted(name for name, tensor in checkpoint.model.items() if name in own and own[name].shape != tensor.shape)
        raise UsageError(
            f"--length {recipe.model.context} is beyond model.context={self.recipe.model.context}: {', '.join(grown[:3])} has "
            "a weight for each position, and none was trained for later ones; give fewer tokens, or train with positions such "
            "as rotary, alibi or none.",
            reason="positions-end",
        )

    def _parent(self) -> assembly.Parent:
        """The run that this one started from, with the weights it started from, even if that run was trained further."""
        recorded = self.ancestry[0]
        run, step = Path(recorded["run"]), recorded["step"]
        for place in (run, self.directory.begun_in / run, self.directory.parent):  # relative to where the run was started
            parent = RunDirectory(place)
            if step in parent.steps() and recorded["weights_sha256"] == checkpoint_checksums(parent, step)[MODEL]:
                return assembly.Parent(parent, load_for_inference(parent.checkpoint(step), lambda sentence: None))
        raise RunError(
            f"{self.folder} started from step {step} of {run}, but those weights no longer exist; restore them.",
            reason="parent-gone",
        )

    def _parent_network(self) -> Network | None:
        """The network that this run started from; None without a parent, or if the parent's head has another size."""
        if not self.ancestry:
            return None
        parent = self._parent()
        recipe = Recipe.parse(parent.directory.read_recipe())
        network = assembly.network_of_run(parent.directory, recipe, parent.checkpoint)
        return network if network.dims.num_outputs == self.untrained().dims.num_outputs else None

    def _other_row(self, what: str, network: Callable[[], Any], device: torch.device) -> Any:
        """A network for another row of the table; None (and reported) if its weights or data are missing."""
        try:
            found = network()
        except GlassformerError as error:
            self._say_once(f"{error} The {what} is left out of the table.")
            return None
        return None if found is None else found.to(device)

    def baselines(self) -> dict[str, Baseline]:
        """The baselines stored in the run; fitted on the training data if it has none."""
        if self.recipe.data.absent:  # an imported model: its training data are unknown
            return {}
        return assembly.saved_baselines(self.directory, self.recipe.objective, lambda: self.data)

    def ask(
        self,
        questions: str | Sequence[str] | Any,
        *,
        beams: int = 1,
        abstain_below: float | None = None,
        abstain: bool = False,
        checkpoint: str | int = "last",
    ) -> list[Answer]:
        """Answers to ``questions`` (or labels of texts), each with its confidence: the probability of the answer or label.

        ``beams``: width of the beam search; the other beams come as ``alternatives``. ``abstain_below``: answer "I don't
        know" below this confidence. ``abstain``: do so by the rule that evaluation fitted (``abstain_rule``): the person was
        probably not in the training data. A classifier answers as ``predict`` does.
        """
        if abstain and abstain_below is not None:
            raise UsageError(
                "--abstain and --abstain-below are two rules for abstaining; give one of them.", reason="two-rules"
            )
        rule = self.abstain_rule(checkpoint) if abstain else None
        options = AskOptions(beams=beams, abstain_below=abstain_below, abstain_by=rule)
        objective = self.recipe.objective
        items: Any = self.question_texts(questions) if isinstance(questions, str | list | tuple) else questions
        if not hasattr(items, "answers"):
            raise UsageError(
                f"ask takes a text, a list of texts, or the result of Run.questions(FILE), not {questions!r}.",
                reason="not-a-question",
            )
        tools = assembly.tools_for(self.recipe, self.tokenizer)
        if remark := objective.remark_on(items, tools):
            self._say_once(remark)
        asked = getattr(objective, "judge", objective)  # of a mixture, the part that is judged
        if asked.ask_reads not in KINDS or type(asked).ask is not ObjectiveConfig.ask:
            return objective.ask(self._answering_model(checkpoint), items, tools, options)
        predictor = self.predictor(checkpoint)
        below, _ = predictor.threshold(abstain_below=abstain_below)
        found = predictor.predict(items.texts, pairs=items.pairs, abstain_below=below)
        return [one.as_answer(items.text_of(at)) for at, one in enumerate(found)]

    def _answering_model(self, which: str | int = "last") -> Network:
        """The unmodified model of a checkpoint on its device."""
        return self._cached("answering model", which, lambda found: self._fresh_model(found).to(choose_device("auto")))

    def predict(
        self,
        texts: Sequence[str],
        *,
        pairs: Sequence[str] | None = None,
        precision: float | None = None,
        coverage: float | None = None,
        abstain_below: float | None = None,
        temperature: bool = True,
        checkpoint: str | int = "last",
    ) -> list[Prediction]:
        """The label of each of ``texts``, with the probability of every label. ``pairs``: the second texts, of pairs.

        ``precision`` or ``coverage``: withhold unsure answers, by a threshold that reached this on validation;
        ``abstain_below``: by your own. ``temperature``: False for the probabilities as the network gives them.
        """
        predictor = self.predictor(checkpoint)
        below, sentence = predictor.threshold(precision=precision, coverage=coverage, abstain_below=abstain_below)
        if sentence:
            self._say_once(sentence)
        return predictor.predict(
            [texts] if isinstance(texts, str) else texts, pairs=pairs, abstain_below=below, temperature=temperature
        )

    def predictor(self, checkpoint: str | int = "last", *, batch_size: int | None = None) -> Predictor:
        """The classifier of a checkpoint, ready for many calls; its temperature and thresholds are fitted once and stored.

        ``batch_size``: texts at once; chosen by the device unless given."""
        if self.recipe.objective.ask_reads not in KINDS:
            raise UsageError(
                f"predict labels texts, but the objective of {self.folder} is {self.recipe.objective.kind}; train one with "
                "objective: labels, multilabel or regression.",
                reason="not-a-classifier",
            )
        network = self._answering_model(checkpoint)
        return Predictor(
            network,
            self.tokenizer,
            self.label_names,
            context=self.recipe.model.context,
            reference=self._reference(network, self._made["answering model"][0][0]),
            batch_size=batch_size,
            target=KINDS[self.recipe.objective.ask_reads],
            scale=self._scale,
        )

    def _reference(self, network: Network, step: int) -> Reference | None:
        """What the training and validation texts look like to the network: stored, or computed; None where they are gone."""
        if self._referred is not None and self._referred.step == step:
            return self._referred
        stored = load_packed(self.directory.prediction_file)
        found = None if stored is None or "reference" not in stored else Reference.from_arrays(stored["reference"])
        if found is None or found.step != step:
            try:
                labels = self.data.part(self.recipe.objective.judged_on)
                train, held_out = labels.split("train"), labels.split("validation")
            except GlassformerError as error:
                self._say_once(
                    f"{error} So probabilities have no temperature, and no text is called unlike the training texts."
                )
                return None
            found = fit_reference(network, self.tokenizer, train, held_out, context=self.recipe.model.context, step=step)
            with suppress(OSError):  # a run that cannot be written to is fitted each time
                write_atomically(self.directory.prediction_file, packed({"reference": found}))
        self._referred = found
        return found

    def abstain_rule(self, checkpoint: str | int = "last") -> AbstainRule:
        """The abstention rule fitted by the evaluation on validation, which is run here if none is saved."""
        objective = self.recipe.objective
        objective.require_answers()
        objective.abstain_rule({})  # refuses before the evaluation where the objective has no such rule
        found = objective.abstain_rule(self.evaluation().details if checkpoint == "last" else {})
        found = found or objective.abstain_rule(self.evaluate("validation", checkpoint=checkpoint).details)
        if found is None:
            raise UsageError(
                f"{self.folder} has no rule for abstaining: its evaluation has no questions about people or no right answer; "
                "give --abstain-below P.",
                reason="no-abstain-rule",
            )
        return found

    def questions(self, file: Path | str) -> Any:
        """Reads a ``file`` of questions, a line of `question` or `question<TAB>answer` each, or of texts to classify."""
        self.recipe.objective.require_answers()
        kind = data_kind(self.recipe.objective.ask_reads)
        return (kind.to_ask or kind.of_file)(self.tokenizer, file, self.recipe.data, record=self._data_record)

    def question_texts(self, texts: str | Sequence[str], *, pairs: Sequence[str] | None = None) -> Any:
        """Questions, or ``texts`` to classify, given as strings; ``pairs``: the second texts, for classifiers of pairs."""
        self.recipe.objective.require_answers()
        kind = data_kind(self.recipe.objective.ask_reads)
        return kind.of_texts(self.tokenizer, texts, pairs=pairs, record=self._data_record)

    def generate(
        self,
        prompts: str | Sequence[str] = "",
        *,
        max_new_tokens: int = 200,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = 0,
        checkpoint: str | int = "last",
        precision: str = "float32",
        on_text: Callable[[str], None] | None = None,
        exact_pieces: bool = False,
        watch: Watcher = SILENT,
    ) -> list[Sample]:
        """Generates a continuation of each of ``prompts``, in the same order.

        ``max_new_tokens``: at most so many, fewer where the text ends or one of ``stop`` appears. ``temperature``: 0 takes the
        most probable token. ``top_k``, ``top_p``: sample among the k most probable tokens, or the fewest that have this
        probability together. ``repetition_penalty``: above 1 makes tokens of the text less probable. ``seed``: the same gives
        the same texts. ``on_text`` gets the pieces of a single text as they are generated.

        ``precision``: float32 gives exactly the texts of the reference implementation; bf16 (several times as fast on a GPU)
        those of a model rounded to it. ``exact_pieces``: each waits until no later token can move a space in it.
        """
        if self.recipe.model.reads_source:
            raise UsageError(
                "model.kind=encoder-decoder continues no text: it reads a source and writes its target; use `translate`.",
                reason="generates-nothing",
            )
        return generate_texts(
            self._generating_model(checkpoint, precision, watch),
            self.tokenizer,
            [prompts] if isinstance(prompts, str) else list(prompts),
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
            stop=[stop] if isinstance(stop, str) else stop,
            stop_ids=self.directory.eos_token_ids,
            on_text=on_text,
            exact_pieces=exact_pieces,
            say=watch.say,
        )

    def translate(
        self,
        texts: str | Sequence[str] | Any,
        *,
        beams: int | None = None,
        length_penalty: float | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        checkpoint: str | int = "last",
    ) -> list[Translation]:
        """The translation of each text, for a run with objective translate; greedy, unless ``beams`` or a ``temperature``.

        ``texts``: strings, or the result of ``Run.questions(FILE)``. ``beams`` and ``length_penalty``: as in the recipe unless
        told. With a ``temperature`` a translation is sampled, by ``top_k``, ``top_p`` and ``seed`` as in ``generate``.
        """
        objective: Any = self.recipe.objective
        if objective.ask_reads != "pairs":
            raise UsageError(
                f"objective={objective.kind} translates nothing; use a run whose objective is translate.",
                reason="translates-nothing",
            )
        if temperature and (beams or 1) > 1:
            raise UsageError(
                f"--beams {beams} searches and --temperature {temperature:g} samples; give one of them.",
                reason="beams-and-sample",
            )
        sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p) if temperature else None
        items: Any = self.question_texts(texts) if isinstance(texts, str | list | tuple) else texts
        network = self._fresh_model(self.checkpoint(checkpoint)).to(choose_device("auto"))
        tools, target = assembly.tools_for(self.recipe, self.tokenizer), target_side(self.tokenizer)
        found = objective.translate(
            network, items, tools, beams=beams, length_penalty=length_penalty, sampling=sampling, seed=seed
        )
        return [
            Translation(source, text, ones[0].log_probability, [written_text(target, one.ids) for one in ones[1:]])
            for source, (text, ones) in zip(items.sources, found)
        ]

    def _generating_model(self, which: str | int, precision: str, watch: Watcher) -> Network:
        """The model of a checkpoint, ready to generate on its device in ``precision``; in bf16 its scores are checked first.

        The last one is cached: decoders and captured graphs are attached to it, so the next text begins at once.
        """
        device, precision = generation_precision(precision, watch.say)

        def make(found: Checkpoint) -> Network:
            read_triton_ahead(device, precision)
            model = self._fresh_model(found).to(device)
            if precision == "bf16":
                weights = str(checkpoint_checksums(self.directory, found.step))
                require_generation(model, self.recipe.model, weights, vocabulary=self.tokenizer.size, watch=watch)
                model = model.to(torch.bfloat16)
            return model

        return self._cached("generator", which, make, precision)

    def opening_text(self, most: int) -> str | None:
        """The beginning of the validation data, at most ``most`` tokens; None where there are none, or they are not here."""
        try:
            if "validation" not in self.data.names:
                return None
            items = self.data.split("validation")
        except GlassformerError:
            return None
        return beginning(items, self.tokenizer, min(most, self.recipe.model.context)) or None

    def look(
        self,
        text: str,
        *,
        checkpoint: str | int = "last",
        hide: Sequence[int] = (),
        model: Network | None = None,
        attention: str | None = None,
        target: str | None = None,
        pad: int | None = None,
    ) -> Look:
        """The model's activations on a text (docs/look.md). ``checkpoint``: also ``untrained``, ``0`` (before step 1) and
        the steps of the film. ``hide``: positions that no query may attend to. ``model``: an altered model instead. ``pad``:
        add padding up to so many tokens, as in a batch.

        Of a run that translates, ``text`` is the source and ``target`` its translation, by default the model's own;
        ``attention`` chooses the maps: ``cross`` (target to source, the default), ``encoder`` or ``decoder``."""
        network, name = (self.network_at(checkpoint), str(checkpoint)) if model is None else (model, "altered")
        if getattr(network, "reads_source", False):
            return self._look_at_translation(network, name, text, target, attention or "cross", hide)
        if attention is not None or target is not None:
            raise UsageError(
                "--attention and --target are for runs that translate; drop them.", reason="attention-without-source"
            )
        if not text:
            raise UsageError("The text is empty, so there is nothing to read; give at least one token.", reason="empty-text")
        if self.recipe.objective.judged_on in KINDS:  # as a classifier reads it, with its special tokens
            items = data_kind("labels").of_texts(self.tokenizer, text, record=self._data_record)
            ids = [int(token) for token in encode_texts(self.tokenizer, items, 1 << 20).ids[0]]
        else:
            ids = prompt_ids(self.tokenizer, text)
        return Look(network, self.tokenizer, ids, hide=hide, name=name, labels=self.label_names, pad=pad)

    def _look_at_translation(
        self, network: Any, name: str, text: str, target: str | None, attention: str, hide: Sequence[int]
    ) -> Look:
        """The encoder on the source, or the decoder on the target given the source."""
        if attention not in ("cross", "encoder", "decoder"):
            raise UsageError(
                f"--attention {attention} is unknown; choose cross, encoder or decoder.", reason="unknown-attention"
            )
        tokenizer, items = self.tokenizer, self.question_texts(text)
        writes, tools = target_side(tokenizer), assembly.tools_for(self.recipe, tokenizer)
        if target is None:
            target = self.recipe.objective.translate(network, items, tools)[0][0]  # type: ignore[attr-defined]
        pairs = encode_pairs(tokenizer, replace(items, targets=(target,)), tools.context)
        source, written = pairs.sources[0], pairs.targets[0]
        if attention == "encoder":
            return Look(network.encoder, tokenizer, source.tolist(), hide=hide, name=name)
        device = next(network.parameters()).device
        given = network.given(network.encode(torch.from_numpy(source)[None].to(device)))
        ids = [pairs.target_start, *written[:-1].tolist()]
        if attention == "decoder":
            return Look(given, writes, ids, hide=hide, name=name)
        words = [tokenizer.token_text(int(token)) for token in source]
        return Look(given, writes, ids, hide=hide, name=name, source=words, end_id=int(written[-1]))

    def network_at(self, which: str | int = "last") -> Any:
        """The network of a checkpoint, of a step of the film, ``untrained``, or ``0``: before the first step."""
        if which == "untrained":
            return self.untrained()
        if not str(which).isdigit() or int(which) in self.directory.steps():
            return self._fresh_model(self.checkpoint(which))
        step, film, network = int(which), self.directory.film(), self.untrained()
        if step in film:
            load_weights(network, read_snapshot(self.directory, step), f"step {step}")
        elif step:
            steps = ", ".join(map(str, sorted({0, *self.directory.steps(), *film})))
            raise RunError(f"{self.folder} has nothing of step {step}; it has {steps}, and untrained.", reason="no-such-step")
        elif self.ancestry:
            parent = self._parent()
            take_weights(network, parent.checkpoint.model, str(parent.directory.root))
        return network

    def summary(self) -> dict[str, Any]:
        """Status, step, last loss and metric as plain values."""
        return summary_of(self.directory)

    def diagnosis(self) -> list[Finding]:
        """What is wrong with this run, from its records: each finding has a code, the sign that shows it, and what to do."""
        return diagnosis_of(self.directory)

    def __repr__(self) -> str:
        return in_one_line(self.summary())

    def _repr_html_(self) -> str:
        return in_html(self.directory, self.diagnosis())
