"""A plan -> the data of every variant, and equal sizes where the plan asks for them; refuses what cannot be compared.

Prepares the tokens once, here, so that the processes that train find them in the cache.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from glassformer.data.prepare import Prepared, prepare
from glassformer.experiment import tokenizer_to_use
from glassformer.foundation.config import fingerprint
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.recipe import Recipe
from glassformer.study.matching import match, size_of
from glassformer.study.plan import BASE, Resolve, StudyPlan, compared
from glassformer.study.results import SPLIT
from glassformer.study.variants import Facts

MEASURED = ("loss", "bits_per_byte")


def prepared_facts(plan: StudyPlan, resolve: Resolve, *, watch: Watcher = SILENT) -> dict[str, Facts]:
    """What is known of each variant from its recipe and its data alone."""
    if plan.metric not in MEASURED:
        raise ConfigError(f"metric={plan.metric} is not measured by a language model; use one of {', '.join(MEASURED)}.")
    recipes = {name: Recipe.parse(resolve(plan.settings(name))) for name in plan.variants}
    data = _all_data(recipes, watch)
    _refuse_other_text(plan, data)
    facts = {
        name: Facts(recipe=compared(recipe.plain()), data=str(data[name].record["sha256"]), documents=_documents(data[name]))
        for name, recipe in recipes.items()
    }
    if plan.match is not None:
        base = recipes[BASE]
        wanted = size_of(base.model, data[BASE].tokenizer.size, plan.match, base.training.batch_size)
        for name in plan.variants[1:]:
            found = match(name, recipes[name], data[name].tokenizer.size, plan.match, wanted)
            if found.settings:
                resolved = Recipe.parse(resolve({**plan.settings(name), **found.settings}))
                facts[name] = replace(
                    facts[name], recipe=compared(resolved.plain()), matched=found.settings, notes=(found.sentence,)
                )
    return facts


def _all_data(recipes: dict[str, Recipe], watch: Watcher) -> dict[str, Prepared]:
    """Most variants share their data: each kind is prepared once."""
    kinds: dict[str, Prepared] = {}
    result = {}
    for name, recipe in recipes.items():
        kind = fingerprint([recipe.data.plain(), recipe.tokenizer.plain(), recipe.init_from])
        if kind not in kinds:
            kinds[kind] = prepare(recipe.data, tokenizer_to_use(recipe, None), progress=_told(watch))
        result[name] = kinds[kind]
    return result


def _told(watch: Watcher) -> Any:
    def told(what: str, done: int, total: int | None) -> None:
        if total:
            watch.progress(what, done, total)

    return told


def _documents(data: Prepared) -> str:
    return hashlib.sha256(data.split(SPLIT).documents["hash"].tobytes()).hexdigest()


def _refuse_other_text(plan: StudyPlan, data: dict[str, Prepared]) -> None:
    """Variants are compared document by document: the same text for all, and for nats per token the same tokens."""
    base = data[BASE]
    if SPLIT not in base.names:
        raise ConfigError("The data have no validation part to compare on; give data.validation, or a share in data.split.")
    for name, own in data.items():
        if own is base:
            continue
        if SPLIT not in own.names or _documents(own) != _documents(base):
            raise ConfigError(
                f"{name} is measured on other documents than the baseline, so nothing can be paired; "
                "give both the same data.validation."
            )
        same_tokens = own.tokenizer.size == base.tokenizer.size and bool(
            (own.split(SPLIT).num_tokens == base.split(SPLIT).num_tokens)
            and (own.split(SPLIT).starts == base.split(SPLIT).starts).all()
        )
        if plan.metric == "loss" and not same_tokens:
            raise ConfigError(
                f"{name} cuts the text into other tokens than the baseline, so nats per token mean something else; "
                "compare by --metric bits_per_byte."
            )
        if not same_tokens and base.split(SPLIT).num_documents < 2:
            raise ConfigError(
                f"{name} cuts the text into other tokens than the baseline, and the validation text is one document, whose "
                "parts cannot be paired; give data.document=line or block."
            )
