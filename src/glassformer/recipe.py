"""The recipe: one file or object that says everything about one run. Read, overridden, resolved, refused when wrong."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

from glassformer.data.config import DataConfig, replace_source
from glassformer.data.objectives.base import OBJECTIVES, ObjectiveConfig
from glassformer.data.tokenizers.base import TOKENIZERS, TokenizerConfig
from glassformer.foundation.config import Config, fingerprint, override
from glassformer.foundation.errors import ConfigError, UnknownName
from glassformer.foundation.registry import Slot
from glassformer.foundation.yaml_text import MAX_BYTES, parse_yaml
from glassformer.model.config import ModelConfig
from glassformer.training.config import CheckpointConfig, EvaluationConfig, TrainingConfig

DESCRIPTIVE = ("about", "result")
"""Keys for people: they change nothing about the run, so they are no part of its fingerprint."""


class Recipe(Config):
    """Data, tokenizer, model, objective, training, evaluation, checkpoints and the seed of one run."""

    about: str = ""
    result: str = ""
    data: DataConfig
    tokenizer: Annotated[SerializeAsAny[TokenizerConfig], BeforeValidator(TOKENIZERS.parse)] = TOKENIZERS.default("char")
    model: ModelConfig = ModelConfig()
    objective: Annotated[SerializeAsAny[ObjectiveConfig], BeforeValidator(OBJECTIVES.parse)] = OBJECTIVES.default("next-token")
    training: TrainingConfig
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    init_from: str | None = None
    """A run whose weights and tokenizer this one starts from."""
    seed: int = Field(default=0, ge=0)

    @property
    def fingerprint(self) -> str:
        """The same for two recipes that ask for the same run."""
        return fingerprint({key: value for key, value in self.plain().items() if key not in DESCRIPTIVE})


Source = str | Path | Mapping[str, Any] | Recipe


def load_recipe(source: Source, changes: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe from a file, a built-in name, plain values or another recipe, with dotted ``changes`` applied."""
    return Recipe.parse(changed(recipe_values(source), changes or {}))


def changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values with dotted changes. Giving ``data.set`` or ``data.path`` removes the other, and likewise
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


def recipe_values(source: Source) -> dict[str, Any]:
    """The plain values of a recipe, not yet checked."""
    if isinstance(source, Recipe):
        return source.plain()
    if isinstance(source, Mapping):
        return dict(source)
    file = recipe_file(source)
    try:
        with file.open("rb") as stream:  # no more than can be a recipe, however large the file
            text = stream.read(MAX_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text ({error}).") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}).") from error
    values = parse_yaml(text, str(file))
    if not isinstance(values, dict):
        raise ConfigError(f"{file} is not a recipe: it must be a mapping with data, model, training and so on.")
    values.pop("schema", None)  # a run's own recipe.yaml is a recipe too
    return values


def recipe_file(source: str | Path) -> Path:
    """A file as it is, or a built-in recipe by name."""
    file = Path(source)
    if file.is_file():
        return file
    built_in = built_in_recipes()
    name = str(source)
    if name in built_in:
        return built_in[name]
    if file.suffix in (".yaml", ".yml") or "/" in name:
        if file.stem in built_in:
            raise ConfigError(f"There is no file {source}. Did you mean the built-in recipe {file.stem!r}?")
        raise ConfigError(f"There is no file {source}; `glassformer recipes` lists the built-in recipes.")
    raise UnknownName("glassformer recipes", name, built_in)


def built_in_recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = Path(str(resources.files("glassformer"))) / "recipes"
    return {file.stem: file for file in sorted(folder.glob("*.yaml"), key=lambda file: file.stem)}


def list_recipes() -> list[dict[str, str]]:
    """Name, description and result of each built-in recipe."""
    rows = []
    for name, file in built_in_recipes().items():
        values = parse_yaml(file.read_text(encoding="utf-8"), str(file))
        rows.append({"name": name, "about": values.get("about", ""), "result": values.get("result", "")})
    return rows


def list_variants() -> list[dict[str, str]]:
    """Every variant of every slot with its one line, as they are found; plugins that were loaded are among them."""
    return [
        {"slot": slot.path, "name": name, "about": slot.get(name).one_line()}
        for slot in Slot.every.values()
        for name in slot.names()
    ]
