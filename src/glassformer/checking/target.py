"""Anything a user can name -> the check of it: a recipe, a run, ``file.py:callable``, a model, a folder or name of the hub."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.assembly import Parent, network_of_run, prepare_data, recorded_recipe, starting_network
from glassformer.checks.check import Target, check_model
from glassformer.checks.check_report import CheckReport
from glassformer.checks.huggingface_subject import HUB_NAME, load_folder, load_hub
from glassformer.checks.tiny_model import tiny_model
from glassformer.foundation.errors import DataError, UsageError
from glassformer.foundation.plugins import load_plugins, run_file
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.runtime import Runtime, choose_runtime
from glassformer.recipe import Recipe, load_recipe
from glassformer.runs.checkpoint import last_checkpoint
from glassformer.runs.directory import RunDirectory


def check(
    target: Target | Recipe | Mapping[str, Any] | None,
    *,
    set: Mapping[str, Any] | None = None,
    plugins: Sequence[Path | str] = (),
    causal: bool | None = None,
    vocabulary: int | None = None,
    context: int | None = None,
    class_name: str | None = None,
    quick: bool = True,
    watch: Watcher = SILENT,
) -> CheckReport:
    """Tests the laws on the actual model and returns a ``CheckReport``: ``passed``, and ``findings`` that say where one breaks.

    ``target``: a recipe (name, file, values), a run's folder, ``"file.py:callable"``, a model, a function from token ids
    [B, T] to scores [B, T, V], a Hugging Face model, its folder or its name on the hub. ``class_name``: the class of
    transformers to load a folder or name as; with ``target=None`` a tiny model of that class with random weights is
    checked. ``set`` and ``plugins``: of a recipe, as in ``train``. ``causal``: whether scores must not depend on later tokens
    (by default as our model says of itself; true for others). ``vocabulary`` and ``context``: where the target does not say
    them and they cannot be found by trial. ``quick``: a sample of the cuts of the context, not every one. ``watch`` gets
    progress.

    ```python
    report = gf.check(lambda ids: torch.nn.functional.one_hot(ids.flip(1), 7).float(), vocabulary=7, context=8)
    print(report.passed, report.findings[0].law)  # False causality
    ```
    """
    load_plugins(plugins)
    if class_name is None:
        model, runtime, laws = _resolve(target, set or {}, watch)
    else:
        model, runtime, laws = _of_class(target, class_name), None, None
    if causal is False and "causality" in (laws or ()):
        raise UsageError(
            "--encoder cannot be used here: the objective of this recipe needs a causal model; drop --encoder.",
            reason="encoder-must-be-causal",
        )
    return check_model(
        model,
        causal=causal,
        vocabulary=vocabulary,
        context=context,
        runtime=runtime,
        laws=laws,
        quick=quick,
        watch=watch,
    )


def _resolve(
    target: Target | Recipe | Mapping[str, Any] | None, changes: Mapping[str, Any], watch: Watcher = SILENT
) -> tuple[Target, Runtime | None, frozenset[str] | None]:
    """The model that ``target`` names, the runtime it is trained in, and the laws its objective demands."""
    if target is None:
        raise UsageError(
            "Nothing to check; give a recipe, a run, file.py:callable, a folder, or --class NAME.",
            reason="nothing-to-check",
        )
    if isinstance(target, str) and ".py:" in target:
        _refuse_changes(target, changes)
        return callable_in_file(target), None, None
    if isinstance(target, str | Path) and Path(target).suffix == ".py":
        raise UsageError(f"{target} is Python code; name what to check in it: {target}:callable.", reason="no-callable-named")
    if isinstance(target, str | Path) and RunDirectory(Path(target)).exists():
        _refuse_changes(str(target), changes)
        directory = RunDirectory(Path(target))
        recipe = recorded_recipe(directory, watch.say)
        network = network_of_run(directory, recipe, last_checkpoint(directory, watch.say))
        return network, _runtime(recipe), recipe.objective.laws
    if isinstance(target, str | Path) and (Path(target) / "config.json").is_file():
        _refuse_changes(str(target), changes)
        return Path(target), None, None
    if isinstance(target, str) and HUB_NAME.fullmatch(target) and not Path(target).exists():
        _refuse_changes(target, changes)
        # A run that is not there, and no name on the hub, which would be asked for half a minute.
        if "/" in target and (Path(target).parent.is_dir() or target.startswith("runs/")):
            raise DataError("does not exist; `glassformer runs` lists the runs of a folder.", file=target, reason="no-such-run")
        return load_hub(target), None, None
    if isinstance(target, str | Path | Recipe | Mapping):
        recipe = load_recipe(target, changes)
        runtime, laws = _runtime(recipe), recipe.objective.laws
        network, _ = starting_network(recipe, prepare_data(recipe), Parent.of(recipe, watch.say))
        return network.to(runtime.device), runtime, laws
    return target, None, None


def _of_class(target: Any, class_name: str) -> nn.Module:
    """A model of a class of transformers: from a folder, from the hub, or tiny and random."""
    if target is None:
        return tiny_model(class_name)
    if isinstance(target, str | Path) and (Path(target) / "config.json").is_file():
        return load_folder(Path(target), class_name)
    if isinstance(target, str) and HUB_NAME.fullmatch(target):
        return load_hub(target, class_name)
    raise UsageError(
        f"--class {class_name} works only with a Hugging Face folder or hub name, not with {target}.",
        reason="class-without-model",
    )


def _refuse_changes(target: str, changes: Mapping[str, Any]) -> None:
    if changes:
        raise UsageError(
            f"--set changes a recipe, but {target} is not a recipe; check its recipe, or drop --set.",
            reason="set-without-recipe",
        )


def _runtime(recipe: Recipe) -> Runtime:
    return choose_runtime(device=recipe.training.device, precision=recipe.training.precision)


def callable_in_file(target: str) -> nn.Module | Callable[..., Any]:
    """``file.py:name`` -> what the file calls so. A class or a function without arguments is called to make it."""
    file, _, name = target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{target}: {file} is not a file; give file.py:callable.", reason="no-such-file")
    module = f"glassformer_checked_{path.stem}"
    try:
        found: Any = run_file(path, module)
        for part in name.split("."):
            found = getattr(found, part)
        made = found() if not isinstance(found, nn.Module) and _takes_nothing(found) else found
    except AttributeError as error:
        public = ", ".join(
            key for key, value in vars(sys.modules[module]).items() if callable(value) and not key.startswith("_")
        )
        raise UsageError(
            f"{target}: {file} has no {name!r} ({error}); it has {public or 'nothing callable'}.",
            reason="no-such-callable",
        ) from error
    except Exception as error:
        raise UsageError(
            f"{target}: running {file} failed with {type(error).__name__}: {error}.", reason="file-failed"
        ) from error
    if not callable(made):
        raise UsageError(
            f"{target}: {name} is {type(made).__name__}; give a function from token ids to scores, or a module.",
            reason="not-callable",
        )
    return made


def _takes_nothing(found: Any) -> bool:
    """Whether calling it needs no argument: then it makes the thing to check, rather than being it."""
    if not callable(found):
        return False
    parameters = inspect.signature(found).parameters.values()
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(parameter.default is not parameter.empty or parameter.kind in open_ended for parameter in parameters)
