"""A finished run -> its evaluation by another objective than its own: the baseline's, so that one evaluator judges all."""

from __future__ import annotations

from dataclasses import replace

from glassformer.assembly import fitted_baselines, prepare_data, tools_for
from glassformer.data.groups import groups_of
from glassformer.evaluation.results import Evaluator, save_evaluation, saved_evaluation
from glassformer.foundation.config import fingerprint
from glassformer.foundation.runtime import choose_device
from glassformer.objectives.base import ObjectiveConfig
from glassformer.run import Run
from glassformer.runs.baselines_file import unpacked


def judge_run(run: Run, objective: ObjectiveConfig, split: str, *, untrained: bool) -> None:
    """Evaluates the last checkpoint by the objective that judges, on the items of its data, and saves that beside its own.

    ``untrained``: whether the network before training is measured, too."""
    name, step = f"{split}-judged-{fingerprint(objective.to_dict())[:8]}", run.checkpoint("last").step
    if saved_evaluation(run.directory, name, step) is not None:
        return
    device = choose_device("auto")
    recipe = run.recipe.model_copy(update={"objective": objective})
    data = prepare_data(recipe, run.tokenizer)
    own = saved_evaluation(run.directory, split, step)
    arrays = unpacked(fitted_baselines(objective, data)) or {}
    known = {kind: one.from_arrays(arrays[kind]) for kind, one in objective.baselines.items() if kind in arrays}
    evaluator = Evaluator(
        objective,
        run.model_at("last").to(device),
        run.untrained().to(device) if untrained else None,
        known if len(known) == len(arrays) else objective.fit_baselines(data),
        tools_for(recipe, run.tokenizer),
        step=step,
        tainted=run.tainted if own is None else own.tainted,
    )
    items = data.split(split)
    result, groups = evaluator.measure(split, items), groups_of(items, recipe.data)
    units = {len(one.sums) for one in (result.units or {}).values()}
    result = replace(result, groups=groups) if groups is not None and units == {len(groups)} else result
    save_evaluation(run.directory, name, result)
