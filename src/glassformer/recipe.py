"""The recipe: the complete configuration of one run. Loading, overrides, defaults, validation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from glassformer.data.config import DataConfig, replace_source
from glassformer.data.reading.default_recipe import ENDINGS, is_text, recipe_for
from glassformer.data.reading.sources import parallel_files
from glassformer.data.tokenizers.base import TOKENIZERS, TokenizerConfig
from glassformer.foundation.config import Config, fingerprint, override, value_at
from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.progress import SILENT, Watcher
from glassformer.foundation.registry import Slot
from glassformer.foundation.suggestions import SCHEMAS
from glassformer.foundation.yaml_text import dump_yaml, read_yaml
from glassformer.model.network import MODELS, NetworkConfig
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig
from glassformer.runs.directory import RunDirectory
from glassformer.training.config import CheckpointConfig, EvaluationConfig, TrainingConfig

DESCRIPTIVE = ("about", "result")
"""Descriptive keys: they do not affect the run, so they are not part of its fingerprint."""


class Recipe(Config):
    """Everything that determines a run, typed and frozen, from ``load_recipe``. It shows itself as YAML without its defaults.

    ``recipe.to_dict()`` has the defaults, too.

    ```python
    recipe = gf.load_recipe("docstrings-char", {"model.width": 32})
    print(recipe.model.width, recipe.training.steps)
    print(recipe)
    ```
    """

    about: str = ""
    """A description, for people; with `--set` it lists the changes."""
    result: str = ""
    """The measured result, for people; removed when another key is changed."""
    data: DataConfig
    """The texts, and what is held out of them."""
    tokenizer: Annotated[SerializeAsAny[TokenizerConfig], BeforeValidator(TOKENIZERS.parse)] = TOKENIZERS.default("char")
    """How a text becomes ids."""
    model: Annotated[SerializeAsAny[NetworkConfig], BeforeValidator(MODELS.parse)] = MODELS.default("transformer")
    """The network and its parts."""
    objective: Annotated[SerializeAsAny[ObjectiveConfig], BeforeValidator(OBJECTIVES.parse)] = OBJECTIVES.default("next-token")
    """What the network learns to predict, and how it is measured."""
    training: TrainingConfig
    """Steps, batches, optimizer, schedule, precision."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """When it is measured on validation."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """When it is saved, and what is kept."""
    init_from: str | None = None
    """A run whose weights and tokenizer this one starts from; or a recipe, which is trained first, inside this run."""
    seed: int = Field(default=0, ge=0)
    """Determines the initial weights, the order of the batches and dropout."""

    @model_validator(mode="before")
    @classmethod
    def _tokenizer_of_the_model(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not isinstance(values.get("model"), Mapping | NetworkConfig):
            return values
        model = MODELS.parse(values["model"])
        setting = model.tokenizer_setting(values.get("tokenizer"))
        return {**values, "model": model} | ({} if setting is None else {"tokenizer": setting})

    @model_validator(mode="after")
    def _sequences_fit(self) -> Self:
        if self.objective.reads_source and not self.model.reads_source:
            raise ConfigError(
                f"objective={self.objective.kind} reads a source and writes a target, and this model has no encoder; set "
                "model.kind: encoder-decoder.",
                reason="reads-no-source",
            )
        if self.model.reads_source and not self.objective.reads_source:
            raise ConfigError(
                f"model.kind=encoder-decoder reads a source, and objective={self.objective.kind} gives none; choose "
                "objective: translate, or {kind: spans, form: pair}.",
                reason="no-source-to-read",
            )
        return self

    @model_validator(mode="after")
    def _known_metric(self) -> Self:
        self.objective.metric(self.evaluation.by)  # an unknown name is refused here, with the nearest
        return self

    @model_validator(mode="after")
    def _best_is_known(self) -> Self:
        if self.checkpoint.best and not self.evaluation.while_training:
            raise ConfigError(
                "checkpoint.best=true needs evaluations, which evaluation.while_training=false leaves out; drop one of them.",
                reason="best-without-evaluations",
            )
        return self

    @model_validator(mode="after")
    def _stratifies_labels(self) -> Self:
        data, needed = self.data, dict[str, tuple[str, ...]]()
        if data.split.stratify:
            needed["data.split.stratify=true"] = ("labels",)
        if data.class_weights != "none":
            needed[f"data.class_weights={data.class_weights}"] = ("labels", "multilabel")
        if data.few is not None:
            needed[f"data.few={data.few}"] = ("labels",)
        if data.label_separator is not None:
            needed[f"data.label_separator={data.label_separator!r}"] = ("multilabel",)
        if isinstance(data.label_column, list):
            needed[f"data.label_column={data.label_column}"] = ("multilabel",)
        for setting, kinds in needed.items():
            if not {*kinds} & {*self.objective.reads}:
                raise ConfigError(
                    f"{setting} has no effect on objective={self.objective.kind}, only on {' and '.join(kinds)}; drop it, or "
                    f"choose objective={kinds[-1]}.",
                    reason="setting-of-labels",
                )
        return self

    @property
    def fingerprint(self) -> str:
        """Equal for two recipes of the same run."""
        return fingerprint({key: value for key, value in self.non_defaults().items() if key not in DESCRIPTIVE})

    def __str__(self) -> str:
        return dump_yaml(self.non_defaults())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


SCHEMAS.append(Recipe)
Source = str | Path | Mapping[str, Any] | Recipe


def load_recipe(source: Source, changes: Mapping[str, Any] | None = None, *, watch: Watcher = SILENT) -> Recipe:
    """Reads a recipe and returns it as a ``Recipe``, with ``changes`` applied (dotted keys: ``{"training.steps": 5}``).

    ``source``: a file, a built-in name, a text or table of yours, plain values or another recipe. If there are changes,
    ``about`` lists them and ``result``, which no longer holds, is dropped. ``watch`` gets sentences, such as how a text was
    read.

    ```python
    recipe = gf.load_recipe("docstrings-char", {"training.steps": 5, "model.positions": "alibi"})
    print(recipe.about)
    ```
    """
    changes = changes or {}
    values = recipe_values(source, changes)
    if is_text(source):
        altered = f"{CHANGED}{', '.join(f'{key}={value}' for key, value in changes.items())}. " if changes else ""
        watch.say(f"{values['about']} {altered}The full recipe is in the run's recipe.yaml.")
    return Recipe.parse(_with_tokenizer_of_parent(changed(_described(source, values, changes), changes)))


CHANGED = "Changed: "
ALTERED = re.compile(rf"{CHANGED}|\S+ with [\w.]+=")
"""How the ``about`` of a recipe begins that was altered before."""


def _described(source: Source, values: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values without ``result`` and with an ``about`` that lists what the changes alter."""
    altered = {key: value for key, value in changes.items() if key not in DESCRIPTIVE and value_at(values, key) != value}
    if not altered:
        return values
    values = {key: value for key, value in values.items() if key != "result"}
    if set(altered) == {"seed"}:
        return values
    about = str(values.get("about", ""))
    run = _run_of_file(source)
    if ALTERED.match(about) and (run is not None or not isinstance(source, str | Path)):
        start = about.rstrip(".") + ", "
    elif run is not None:
        start = f"{run.name} with "
    elif isinstance(source, str | Path):
        start = f"{Path(source).stem} with "
    else:
        start = CHANGED
    short = {key: str(value) if len(str(value)) <= 60 else f"{str(value)[:57]}..." for key, value in altered.items()}
    return {**values, "about": start + ", ".join(f"{key}={value}" for key, value in short.items()) + "."}


def _run_of_file(source: Source) -> Path | None:
    """The folder of the run whose own recipe ``source`` is: every such file has the same name."""
    file = Path(source) if isinstance(source, str | Path) else None
    return file.parent if file is not None and file == RunDirectory(file.parent).recipe_file and file.is_file() else None


def is_run(place: str) -> bool:
    """Whether ``init_from`` is a run; otherwise it is a recipe."""
    return RunDirectory(Path(place)).exists()


def run_taken(place: str | Path) -> str | None:
    """A sentence if ``init_from`` is the name of both a run and a built-in recipe: the run is used."""
    if str(place) not in built_in_recipes() or not is_run(str(place)):
        return None
    return (
        f"init_from={place} is the run in this folder, not the built-in recipe of that name; rename the run to train the "
        "recipe first."
    )


def parent_recipe(recipe: Recipe) -> Recipe:
    """The recipe in ``init_from``, with the child's model and seed, so that every seed has its own parent.

    If both use a synthetic set of the same kind, the parent gets the child's settings, since questions about another world
    would measure nothing. Other data stay the parent's own.

    The parent keeps its own head if the child's pools tokens into one vector, which no token objective can use.
    """
    assert recipe.init_from is not None
    values = recipe_values(recipe.init_from)
    model = recipe.model.to_dict()
    if getattr(getattr(recipe.model, "head", None), "pools", False):
        model = {**model, "head": (values.get("model") or {}).get("head", "tied")}
    data = dict(values.get("data") or {})
    own, parents = recipe.to_dict()["data"].get("set"), data.get("set")
    if isinstance(own, Mapping) and isinstance(parents, Mapping) and own.get("kind") == parents.get("kind"):
        data["set"] = own
    return load_recipe({**values, "model": model, "seed": recipe.seed, "data": data})


def _with_tokenizer_of_parent(values: Mapping[str, Any], descendants: Sequence[Path] = ()) -> dict[str, Any]:
    """A recipe without a tokenizer gets its parent's; raises if it names another one, and on a cycle of files."""
    place = values.get("init_from")
    if not isinstance(place, str):
        return dict(values)
    built_in = place in built_in_recipes()  # a folder that is no run does not shadow a recipe; ./NAME is the folder
    if not built_in and not is_run(place) and (Path(place) / "config.json").is_file():
        raise ConfigError(
            f"init_from={place} is the folder of a Hugging Face model. Make it a run first "
            f"(glassformer import {place} --out RUN), then give init_from=RUN.",
            reason="init-from-huggingface",
        )
    if is_run(place):
        parent = RunDirectory(Path(place)).read_recipe()
    else:
        files = [*descendants, recipe_file(place).resolve()]
        if files[-1] in descendants:
            names = " -> ".join(file.name for file in files)
            raise ConfigError(
                f"init_from={place} leads back to itself: {names}. Use a run, or a recipe without such a cycle.",
                reason="init-from-cycle",
            )
        parent = _with_tokenizer_of_parent(recipe_values(place), files)
    tokenizer, own = parent.get("tokenizer", "char"), values.get("tokenizer")
    if own is not None and TOKENIZERS.parse(own) != TOKENIZERS.parse(tokenizer):
        raise ConfigError(
            f"tokenizer={own!r} is not that of init_from={place} ({tokenizer!r}): the same ids would mean other text. "
            "Leave tokenizer out to take the parent's.",
            reason="tokenizer-not-the-parents",
        )
    return {**values, "tokenizer": tokenizer}


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values with dotted changes. Setting ``data.set`` or ``data.path`` removes the other, and likewise
    ``training.steps`` and ``training.epochs``."""
    result = dict(values)
    of_data = {key.removeprefix("data."): value for key, value in changes.items() if key.startswith("data.")}
    if isinstance(result.get("data"), Mapping):
        result["data"] = replace_source(result["data"], of_data)
    if isinstance(result.get("training"), Mapping):
        for new, old in (("steps", "epochs"), ("epochs", "steps")):
            if changes.get(f"training.{new}") is not None and f"training.{old}" not in changes:
                result["training"] = {key: value for key, value in result["training"].items() if key != old}
    return override(result, changes)


def recipe_values(source: Source, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The plain values of a recipe, not yet validated. ``changes`` (applied later) decide what is chosen for a text."""
    if isinstance(source, Recipe):
        return source.to_dict()
    if isinstance(source, Mapping):
        return dict(source)
    if is_text(source):
        return recipe_for(source, changes)
    file = recipe_file(source)
    try:
        values = read_yaml(file)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text ({error}).", reason="recipe-not-utf8") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}).", reason="recipe-not-readable") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"{file} is not a recipe: it must be a mapping with data, model, training and so on.", reason="not-a-recipe"
        )
    values.pop("schema", None)  # a run's own recipe.yaml is a recipe too
    found, run = with_files_found(values, file.parent), RunDirectory(file.parent)
    if file == run.recipe_file and run.environment_file.is_file():  # its text has a recorded place; its parent has not
        found |= with_files_found({"init_from": values.get("init_from")}, run.begun_in)
    return found


def with_files_found(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolves paths that exist relative to ``folder`` and not to the working directory: the files of the data, questions about
    them, an encoder's folder with its tokenizer, and the parent."""
    found = dict(values)
    files = {"data": ("path", "validation", "test", "vocabulary", "questions"), "model": ("folder",), "tokenizer": ("file",)}
    for section, keys in files.items():
        if isinstance(settings := values.get(section), Mapping):
            found[section] = {**settings, **{key: _beside(settings[key], folder) for key in keys if key in settings}}
    if values.get("init_from") is not None and values["init_from"] not in built_in_recipes():
        found["init_from"] = _beside(values["init_from"], folder)
    return found


def _beside(name: Any, folder: Path) -> Any:
    """A path, or each of several, as it is seen from here if it exists only relative to ``folder``."""
    if isinstance(name, Mapping):
        return {key: _beside(each, folder) for key, each in name.items()}
    if isinstance(name, list):
        return [_beside(each, folder) for each in name]
    if not isinstance(name, str) or name in ("", "-") or Path(name).expanduser().exists():
        return name
    names = parallel_files(name) or (name,)  # a source and its target
    if all((folder / one).exists() for one in names) and not all(Path(one).expanduser().exists() for one in names):
        return ",".join(str(folder / one) for one in names)
    return name


def recipe_file(source: str | Path) -> Path:
    """The path of a recipe: a file, or a built-in recipe by name."""
    file = Path(source)
    if file.is_file():
        return file
    if RunDirectory(file).exists():
        return RunDirectory(file).recipe_file
    built_in = built_in_recipes()
    name = str(source)
    if name in built_in:
        return built_in[name]
    if file.is_dir():
        raise ConfigError(
            f"{source} is a folder, not a recipe. To train on the texts in it: glassformer train docstrings-char --set "
            f"data.path={source}.",
            reason="recipe-is-a-folder",
        )
    if file.suffix.lower() in (".yaml", ".yml", *ENDINGS) or "/" in name:
        if file.stem in built_in:
            raise ConfigError(
                f"There is no file {source}. Did you mean the built-in recipe {file.stem!r}?", reason="no-such-recipe-file"
            )
        raise ConfigError(
            f"There is no file {source}; check the path (`glassformer recipes` lists the built-in recipes).",
            reason="no-such-recipe-file",
        )
    raise UnknownName(f"There is no file and no built-in recipe {name!r}.", name, built_in, whole=True)


def built_in_recipes() -> dict[str, Path]:
    """The built-in recipes by name."""
    folder = Path(str(resources.files("glassformer"))) / "recipes"
    return {file.stem: file for file in sorted(folder.glob("*.yaml"), key=lambda file: file.stem)}


def list_recipes() -> list[dict[str, str]]:
    """Name, description and result of each built-in recipe."""
    rows = []
    for name, file in built_in_recipes().items():
        values = read_yaml(file)
        rows.append({"name": name, "about": values.get("about", ""), "result": values.get("result", "")})
    return rows


def list_variants() -> list[dict[str, str]]:
    """Every variant of every slot with its description, loaded plugins included."""
    for slot in list(Slot.every.values()):
        slot.names()  # imports its files, which may define further slots
    return [
        {"slot": slot.path, "name": name, "about": slot.get(name).one_line()}
        for slot in list(Slot.every.values())
        for name in slot.names()
    ]
