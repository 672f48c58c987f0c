"""The Python reference is made of docstrings: each names every argument, and its example runs."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import glassformer as gf

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ORDER = ["train", "load", "Run", "compare", "Study", "load_recipe", "Recipe", "plan", "check", "Callback"]
"""Examples that read runs/example and studies/example stand after those that write them."""


def documented() -> Iterator[tuple[str, Any, str]]:
    """Every public function and method, with what explains its arguments: its docstring and that of its class."""
    for name in gf.__all__:
        thing = getattr(gf, name)
        if inspect.isfunction(thing):
            yield name, thing, inspect.getdoc(thing) or ""
        elif name != "Recipe":  # its fields are keys, its methods pydantic's
            for key in vars(thing):
                method = getattr(thing, key)
                if not key.startswith("_") and inspect.isroutine(method) and not hasattr(method, "attrname"):
                    yield f"{name}.{key}", method, f"{inspect.getdoc(method)}\n{inspect.getdoc(thing)}"


@pytest.mark.parametrize(("name", "function", "text"), list(documented()), ids=[name for name, *_ in documented()])
def test_every_argument_is_explained(name: str, function: Any, text: str) -> None:
    arguments = [one for one in inspect.signature(function).parameters if one != "self"]
    if not name.startswith("Callback."):  # one argument each, with its type
        assert [one for one in arguments if f"``{one}``" not in text] == []


@pytest.mark.parametrize("name", [name for name in gf.__all__ if inspect.isclass(getattr(gf, name))])
def test_every_public_attribute_has_a_docstring(name: str) -> None:
    found = vars(getattr(gf, name)).items()
    assert [key for key, value in found if not key.startswith("_") and callable(value) and not inspect.getdoc(value)] == []
    properties = [(key, value) for key, value in found if hasattr(value, "fget") or hasattr(value, "attrname")]
    assert [key for key, value in properties if not key.startswith("_") and not value.__doc__] == []


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a reader would run them: ``gf`` and torch are imported, and each sees the folders that the ones before it wrote."""
    import torch

    monkeypatch.chdir(tmp_path)
    assert sorted(ORDER) == gf.__all__
    for name in ORDER:
        examples = BLOCK.findall(inspect.getdoc(getattr(gf, name)) or "")
        assert len(examples) == 1, name
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as told:
            exec(compile(textwrap.dedent(examples[0]), f"<example of {name}>", "exec"), {"gf": gf, "torch": torch})
        assert name == "Study" or len(printed.getvalue()) < 5000, f"{name} prints a wall of text"
        if name in ("train", "compare"):  # what takes long says how far it is
            assert "example" in told.getvalue() or "step 4" in told.getvalue(), name


def test_what_a_call_returns_shows_itself_in_a_few_lines() -> None:
    """A list of results in a notebook or at a prompt, where repr is what one sees."""
    from glassformer.evaluation.results import Evaluation
    from glassformer.foundation.estimate import Estimate
    from glassformer.generation.texts import Sample
    from glassformer.study.statistics.verdict import Verdict

    recipe = gf.load_recipe("docstrings-char", {"model.width": 32})
    assert gf.load_recipe(yaml.safe_load(str(recipe))) == recipe
    plan = gf.plan(recipe)
    assert f"{plan.cost.parameters:,}" in str(plan)
    evaluation = Evaluation("validation", {"loss": Estimate(2.5, 2.4, 2.6, 9)}, {"uniform": {"loss": Estimate(3.0)}})
    verdict = Verdict("model.norm=rms", "invalid", "the baseline learned nothing " * 9, "model.norm=rms is invalid.")
    assert str(verdict) == "[invalid] model.norm=rms is invalid."
    assert str(Sample("Once", " upon", 5, "length")) == "Once upon"
    assert repr(evaluation) == "Evaluation('validation', loss 2.500 [2.400, 2.600])"
    for one in (plan, evaluation, verdict):
        assert len(repr(one)) < 120
