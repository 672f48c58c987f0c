"""A plan -> the prepared data of every variant, and matched model sizes; raises if variants cannot be compared.

Data are prepared here, once, so that the worker processes find them in the cache.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from glassformer.assembly import prepare_data, tools_for
from glassformer.data.data_kinds import PreparedData
from glassformer.data.overlap import share_in_train
from glassformer.data.reading.named_sets import SETS
from glassformer.data.token_files import TokenSplit
from glassformer.evaluation.language_metrics import DocumentLosses, EvaluatedText
from glassformer.foundation.config import diff, fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.metrics import BITS_PER_BYTE, KNOWN, LOSS, Metric
from glassformer.foundation.plugins import is_ours
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.objectives.base import ObjectiveConfig
from glassformer.recipe import Recipe
from glassformer.study.planning.parents_text import read_by_parents
from glassformer.study.planning.plan import (
    BASE,
    NOT_COMPARED,
    VALIDATION_SPLIT,
    Resolve,
    StudyPlan,
    recipe_fingerprint,
    training_fingerprint,
    training_values,
)
from glassformer.study.planning.power import FEWEST_SEEDS
from glassformer.study.planning.size_matching import match, size_of
from glassformer.study.planning.variant_facts import MUCH, Facts
from glassformer.study.running.trial_store import data_checksum, parent_checksum
from glassformer.study.statistics.corrections import FIRST_STUDY

WHOLLY = 0.99
"""The share of the judged text in the training text from which a study is refused."""
GRID_POINT = " (setting "


def prepared_facts(plan: StudyPlan, resolve: Resolve, *, watch: Watcher = SILENT) -> dict[str, Facts]:
    """The facts about each variant that need only its recipe and its data."""
    recipes = {name: Recipe.parse(resolve(plan.settings(name))) for name in plan.variants}
    base = recipes[BASE]
    refuse_metric(plan.judged, base.objective, BASE)
    judges = {name: judge_of(base.objective, recipe.objective) for name, recipe in recipes.items()}
    compared_recipes = {**recipes, **_grid_points(plan, resolve)}
    data = prepare_each(compared_recipes, watch)
    _require_same_text(plan, data)
    _require_unseen_text(plan, base, data[BASE])
    for name, judge in judges.items():
        if judge is not None:
            _require_judge(name, recipes[name], judge, data)
    _require_same_targets(plan, compared_recipes, data)
    parents = {init_from: parent_checksum(init_from) or "" for init_from in {recipe.init_from for recipe in recipes.values()}}
    read = {name: _read_by_parents(plan, name, recipe, data[name]) for name, recipe in recipes.items()}
    facts = dict[str, Facts]()
    for name, recipe in recipes.items():
        settings, notes = dict[str, Any](), list[str]()
        if name == BASE:
            notes = [
                *_judge_notes(recipe.objective),
                *_data_choice_notes(recipe),
                *_parent_notes(plan, read[BASE]),
                *_sample_size_notes(plan, recipe, data[name]),
            ]
        elif plan.match is not None:
            settings, notes = matched(plan, name, recipes, data)
        own, judge = resolve({**plan.settings(name), **settings}), judges[name]
        facts[name] = Facts(
            recipe=recipe_fingerprint(own),
            data=data_checksum(data[name].record),
            documents=_items_checksum(data[name], plan.split),
            matched=settings,
            notes=tuple(notes),
            parent=parents[recipe.init_from],
            asked=training_fingerprint(own),
            settings=training_values(own),
            judged_in_train=_judged_in_train(plan, data[name], data[BASE]),
            read_by_parents=read[name],
            judge="" if judge is None else f"-judged-{fingerprint(judge.to_dict())[:8]}",
        )
    return facts


def matched(
    plan: StudyPlan, name: str, recipes: Mapping[str, Recipe], data: Mapping[str, PreparedData]
) -> tuple[dict[str, Any], list[str]]:
    """The setting that gives a change the baseline's size, and a note; nothing without ``match``, and for the baseline."""
    if plan.match is None or name == BASE:
        return {}, []
    base, own = recipes[BASE], recipes[name]
    outputs = {one: recipes[one].objective.outputs(data[one]) for one in (BASE, name)}
    size = size_of(base.model, data[BASE].tokenizer.size, plan.match, base.training.batch_size, outputs[BASE])
    return match(name, own, data[name].tokenizer.size, plan.match, size, outputs[name])


def judge_of(base: ObjectiveConfig, own: ObjectiveConfig) -> ObjectiveConfig | None:
    """The objective that judges a variant: the baseline's, on whose units all are compared. None: its own does the same.

    An evaluator of a plugin is never taken for the baseline's, whatever it says of itself.
    """
    theirs = base.judge
    its = own.judge if is_ours(type(own)) else own
    if type(theirs) is type(its):
        theirs = theirs.model_copy(update={name: getattr(its, name) for name in type(theirs).answering})
    return None if type(theirs) is type(its) and theirs == its else theirs


def _require_judge(name: str, recipe: Recipe, judge: ObjectiveConfig, data: Mapping[str, PreparedData]) -> None:
    """Raises where the baseline's evaluator cannot judge the network of a variant."""
    own = recipe.objective
    fits = judge.outputs(data[BASE]) == own.outputs(data[name]) and judge.reads_source == own.reads_source
    if not fits or not set(judge.marks()) <= set(own.marks()):
        raise ConfigError(
            f"{name} cannot be judged by the baseline's evaluator (objective={judge.kind}): its objective={own.kind} has other "
            "outputs, marks or a source; compare objectives of one kind, or make it the baseline.",
            reason="other-evaluator",
        )


def differing_key(stored: Mapping[str, Any], recipe_of: Callable[[], Mapping[str, Any]]) -> str | None:
    """Names a key in which the recipe in a trial's folder differs from the planned one; None where they are the same."""
    keys = diff(Recipe.parse(dict(stored)).to_dict(), dict(recipe_of()))
    return next((key for key in keys if key.split(".")[0] not in NOT_COMPARED or key == "seed"), None)


def _grid_points(plan: StudyPlan, resolve: Resolve) -> dict[str, Recipe]:
    """The recipe of each variant at each point of its grid, by a label for messages."""
    return {
        f"{name}{GRID_POINT}{number + 1} of its grid)": Recipe.parse(resolve({**plan.settings(name), **point}))
        for name in plan.variants
        for number, point in enumerate(plan.tuning_points(name))
    }


def prepare_each(recipes: Mapping[str, Recipe], watch: Watcher = SILENT) -> dict[str, PreparedData]:
    """The data of each recipe, by name. Most variants share theirs: each kind is prepared once."""

    def report(what: str, done: int, total: int | None) -> None:
        if total:
            watch.progress(what, done, total)

    kinds: dict[str, PreparedData] = {}
    result = {}
    for name, recipe in recipes.items():
        kind = fingerprint([recipe.data.to_dict(), recipe.tokenizer.to_dict(), recipe.init_from, recipe.objective.to_dict()])
        if kind not in kinds:
            kinds[kind] = prepare_data(recipe, progress=report)
        result[name] = kinds[kind]
    return result


def refuse_metric(metric: Metric, objective: ObjectiveConfig, name: str) -> None:
    """Raises, before training, if the objective does not compute the metric or it is not a weighted mean over units."""
    known = {one.name: one for one in objective.metrics if one.judged}
    if metric.name not in known:
        given = {one.name for one in objective.metrics}
        why = "is not a mean over units, so it cannot be judged" if metric.name in given else "is not measured"
        raise ConfigError(
            f"metric={metric.name} {why} by objective={objective.kind} of {name}; use one of {', '.join(known)}.",
            reason="metric-not-judged",
        )
    usual = next((one for one in KNOWN if one.name == metric.name), metric)
    if known[metric.name].lower_is_better != usual.lower_is_better:
        raise ConfigError(
            f"objective={objective.kind} of {name} turns {metric.name} round: elsewhere {_direction(usual)} is better; give "
            "its metric another name.",
            reason="metric-turned-round",
        )


def _direction(metric: Metric) -> str:
    return "less" if metric.lower_is_better else "more"


def _items_checksum(data: PreparedData, split: str) -> str:
    """A checksum of the evaluation items: equal for two variants exactly when their units can be paired."""
    items = data.split(split)
    if hasattr(items, "documents"):
        return hashlib.sha256(items.documents["hash"].tobytes()).hexdigest()
    return fingerprint([str(one) for one in items.ids])


def _same_items(one: PreparedData, other: PreparedData, split: str) -> bool:
    """Whether two variants have the same units: the same ids, texts or questions, and labels."""
    mine, theirs = (getattr(data.split(split), "fingerprint", None) for data in (one, other))
    return _items_checksum(one, split) == _items_checksum(other, split) and mine == theirs


def _require_same_text(plan: StudyPlan, data: dict[str, PreparedData]) -> None:
    """Raises unless all variants are evaluated on the same units and, for nats per token, on the same tokens."""
    base, split = data[BASE], plan.split
    if split.partition(":")[0] not in base.names:
        there = ", ".join(name for name in base.names if name != "train") or "none to compare on"
        raise ConfigError(
            f"split={split} does not exist in these data (they have {there}); give data.validation, or data.split.",
            reason="no-such-split",
        )
    if plan.tune is not None and VALIDATION_SPLIT not in base.names:
        raise ConfigError(
            f"tune chooses settings on the validation part, never on {split}, but the data have none; give data.validation, "
            "or a share in data.split.",
            reason="no-validation-to-tune-on",
        )
    for name, own in data.items():
        if own is base:
            continue
        if split.partition(":")[0] not in own.names or not _same_items(own, base, split):
            raise ConfigError(
                f"{name} is evaluated on other documents than the baseline, so they cannot be paired; "
                "give both the same data.validation.",
                reason="other-documents",
            )
        if base.judged_on == "text" and plan.judged.name == BITS_PER_BYTE.name:
            _require_same_bytes(name, own, base, split)
        if base.judged_on == "text":
            _require_same_tokens(plan, name, own.split(split), base.split(split), own.tokenizer.size == base.tokenizer.size)


def _require_unseen_text(plan: StudyPlan, recipe: Recipe, base: PreparedData) -> None:
    """Raises where a file that variants are judged on is all training text. A part of it is said with the verdicts; so is a
    drawn split of a text that repeats itself."""
    given = recipe.data.validation if plan.split == VALIDATION_SPLIT else recipe.data.test
    if not given or "train" not in base.names or not hasattr(base.split(plan.split), "tokens"):
        return
    _refuse_memorising(plan, share_in_train(base.split("train"), base.split(plan.split)), "is training text", "data.validation")


def _judged_in_train(plan: StudyPlan, own: PreparedData, base: PreparedData) -> float:
    """The share of the judged text in the training text of a change, beyond the share in the baseline's; raises where it is all
    of it."""
    if own is base or not all("train" in one.names and hasattr(one.split("train"), "tokens") for one in (own, base)):
        return 0.0
    theirs, its = (share_in_train(one.split("train"), one.split(plan.split)) or 0.0 for one in (base, own))
    _refuse_memorising(plan, its, "stands in the training text of a change", "data.path of it")
    return its if its > 2.0 * theirs else 0.0


def _read_by_parents(plan: StudyPlan, name: str, recipe: Recipe, data: PreparedData) -> float:
    """The share of the judged text that the parents of a variant have read, where it is more than the text repeats itself;
    raises where it is all of a text. Of labelled texts a parent that only reads has not seen the labels."""
    share = read_by_parents(recipe, data, plan.split)
    repeated = share_in_train(data.split("train"), data.split(plan.split)) if share and "train" in data.names else None
    if share <= 2.0 * (repeated or 0.0):
        return 0.0
    if hasattr(data.split(plan.split), "tokens"):
        where = f"stands in the training text of the parent of {name} (init_from)"
        _refuse_memorising(plan, share, where, "data.validation")
    return share


def _refuse_memorising(plan: StudyPlan, share: float | None, where: str, other: str) -> None:
    """Raises where all of the judged text was trained on."""
    if share is not None and share >= WHOLLY and not plan.allow_leaks:
        raise ConfigError(
            f"All of the {plan.split} text {where}, so a verdict would be about memorising; give another {other}, or "
            "--allow-leaks to compare all the same.",
            reason="judged-text-is-trained-on",
        )


def _parent_notes(plan: StudyPlan, share: float) -> list[str]:
    """A note where the baseline's parents, and so perhaps those of all variants, have read judged text."""
    if share <= MUCH:
        return []
    return [
        f"The parent of the baseline (init_from) was trained on {100 * share:.2g} % of the {plan.split} text: its figures on "
        "that text are too optimistic."
    ]


def _require_same_targets(plan: StudyPlan, recipes: dict[str, Recipe], data: dict[str, PreparedData]) -> None:
    """Raises unless all variants predict the same tokens, where the objective predicts only part of a text."""
    settings = {}
    for name, recipe in recipes.items():
        tools = tools_for(recipe, data[name].tokenizer)
        variant = recipes[name.partition(GRID_POINT)[0]]
        judge = judge_of(recipes[BASE].objective, variant.objective) or recipe.objective
        settings[name] = judge.evaluation_settings(data[name].split(plan.split), tools)
    for name, own in settings.items():
        differing = diff(settings[BASE], own)
        if differing:
            key, (was, now) = next(iter(differing.items()))
            raise ConfigError(
                f"{name} predicts other tokens than the baseline ({key} is {now!r}, not {was!r}), so they cannot be "
                f"paired; keep it the same in every variant.",
                reason="other-targets",
            )


def _judge_notes(objective: ObjectiveConfig) -> list[str]:
    """A note where a plugin judges: nothing here checks what its evaluator does."""
    judge = objective.judge
    if is_ours(type(judge)):
        return []
    return [
        f"All variants are judged by objective={judge.kind}, which a plugin defines: read its evaluate before you trust a word."
    ]


def _data_choice_notes(recipe: Recipe) -> list[str]:
    """Notes on choices of data that no seed repeats."""
    data, notes = recipe.data, []
    if data.few is not None:
        notes.append(
            f"All seeds train on one draw of data.few={data.few} texts of each label, so verdicts are about this draw; repeat "
            "the study with another data.few_seed."
        )
    declared = SETS[data.set].group if isinstance(data.set, str) and data.set in SETS else None
    if declared is not None and data.group not in (None, declared):
        notes.append(
            f"data.group={data.group} stands instead of {declared}, by which documents of {data.set} belong together; where "
            "they are not independent, intervals are too narrow."
        )
    return notes


def _sample_size_notes(plan: StudyPlan, recipe: Recipe, data: PreparedData) -> list[str]:
    """Notes, before the first run, on verdicts that so few units cannot support, however many seeds there are."""
    units = recipe.objective.num_units(data.split(plan.split), tools_for(recipe, data.tokenizer))
    if plan.all_looks[-1] < FEWEST_SEEDS:
        return []  # nothing will be decided anyhow, which the plan says
    if units < 2:
        return [
            f"The {plan.split} part is a single document or block, so nothing can be decided for other text, however many "
            "seeds there are; give more of it (data.validation or data.split)."
        ]
    needed = math.ceil(math.log(FIRST_STUDY * plan.alpha) / math.log1p(-min(plan.same_within, 0.999)))
    if not plan.judged.answers or units >= needed:
        return []
    return [
        f'The {plan.split} part has {units} items: better and worse can be found, but "same" within a margin of '
        f"{plan.same_within:g} takes {needed}, because fewer may hold none of the items that a change always loses."
    ]


def _require_same_bytes(name: str, own: PreparedData, base: PreparedData, split: str) -> None:
    """Raises unless the bytes of every token are known and each document has equally many in both variants."""
    sizes = {who: _bytes_by_document(data, split) for who, data in ((BASE, base), (name, own))}
    for who, found in sizes.items():
        if np.isnan(found).any():
            raise ConfigError(
                f"{who} cannot be compared by bits_per_byte: some of its tokens (UNK) have no fixed number of bytes; "
                "choose a tokenizer that knows every character, such as bpe or byte.",
                reason="bytes-unknown",
            )
    one, other = sizes[BASE], sizes[name]
    if (
        len(one) != len(other)
        or not np.array_equal(one[1:], other[1:])
        or _first_bytes(base, split) != _first_bytes(own, split)
    ):
        raise ConfigError(
            f"{name} counts other bytes in the validation documents than the baseline (its tokenizer changes the text), so "
            "bits_per_byte cannot be paired; compare tokenizers that keep the text as it is.",
            reason="other-bytes",
        )
    base_lengths, own_lengths = base.tokenizer.byte_lengths(), own.tokenizer.byte_lengths()
    for number in range(len(one)):
        if _text_of(base, split, number, base_lengths) != _text_of(own, split, number, own_lengths):
            raise ConfigError(
                f"{name}: what its tokenizer makes of {own.split(split).where(number)} is not the text that the baseline's "
                "makes of it, so bits_per_byte are not about the same text; compare tokenizers that keep the text as it is.",
                reason="other-text",
            )


def _first_bytes(data: PreparedData, split: str) -> float:
    """Of the first document, with its first token, which nobody predicts."""
    items = data.split(split)
    return float(data.tokenizer.byte_lengths()[np.asarray(items.document(0))].sum()) if items.num_documents else 0.0


def _text_of(data: PreparedData, split: str, number: int, lengths: np.ndarray) -> str:
    """What a tokenizer gives back of a document, without tokens that stand for no text. ``lengths``: bytes of each token."""
    ids = np.asarray(data.split(split).document(number))
    return data.tokenizer.decode(ids[lengths[ids] > 0.0].tolist())


def _bytes_by_document(data: PreparedData, split: str) -> np.ndarray:
    items = data.split(split)
    return DocumentLosses.collect(np.zeros(max(0, items.num_tokens - 1)), EvaluatedText.of(items, data.tokenizer)).bytes


def _one_to_one(own: TokenSplit, base: TokenSplit) -> bool:
    """Whether one text in two forms is the same but for the numbers of its tokens: a tokenizer that takes two letters for one
    leaves less to predict."""
    pairs = np.asarray(own.tokens, np.int64) << 32 | np.asarray(base.tokens, np.int64)
    return len(np.unique(pairs)) == len(np.unique(own.tokens)) == len(np.unique(base.tokens))


def _require_same_tokens(plan: StudyPlan, name: str, own: TokenSplit, base: TokenSplit, same_size: bool) -> None:
    same = (
        same_size and own.num_tokens == base.num_tokens and bool((own.starts == base.starts).all()) and _one_to_one(own, base)
    )
    if plan.judged.unit == LOSS.unit and not same:
        raise ConfigError(
            f"{name} cuts the text into other tokens than the baseline, so nats per token mean something else; "
            "compare by --metric bits_per_byte.",
            reason="other-tokens",
        )
    if not same and base.num_documents < 2:
        raise ConfigError(
            f"{name} cuts the text into other tokens than the baseline, and the validation text is one document, whose "
            "parts cannot be paired; give data.document=line or block.",
            reason="one-document",
        )
