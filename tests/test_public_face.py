"""The public face: exactly these names, each documented, each there when asked for and none loaded before."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer

ROOT = Path(__file__).parents[1]
FACE = ["Callback", "Recipe", "Run", "Study", "check", "compare", "load", "load_recipe", "plan", "train"]


def test_exactly_these_names() -> None:
    assert glassformer.__all__ == sorted(glassformer.__all__) == FACE
    assert dir(glassformer) == FACE


@pytest.mark.parametrize("name", FACE)
def test_each_is_there_with_a_docstring_and_types(name: str) -> None:
    thing = getattr(glassformer, name)
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        parameters = inspect.signature(thing).parameters.values()
        assert all(parameter.annotation is not parameter.empty for parameter in parameters)
        assert inspect.signature(thing).return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", FACE)
def test_each_is_documented(name: str) -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert any(f"gf.{name}" in page.read_text(encoding="utf-8") for page in pages)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'trian'; it has Callback, Recipe, Run, .*train"):
        glassformer.trian  # noqa: B018


def test_checkers_see_the_same_names() -> None:
    text = (ROOT / "src" / "glassformer" / "__init__.py").read_text(encoding="utf-8")
    assert all(f"import {name} as {name}\n" in text for name in FACE)
    assert (ROOT / "src" / "glassformer" / "py.typed").exists()


def test_importing_the_package_loads_next_to_nothing() -> None:
    program = "import sys, glassformer; sys.exit(str({'torch', 'numpy', 'pydantic', 'matplotlib'} & set(sys.modules) or ''))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="no load average here")
def test_on_a_busy_machine_waiting_threads_sleep_from_python_too() -> None:
    """The command and ``import glassformer`` choose alike, before torch is loaded; what the user set stands."""
    program = "import os; os.getloadavg = lambda: ({load},) * 3; import glassformer; print(os.environ.get('OMP_WAIT_POLICY'))"
    without = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}

    def chosen(load: float, **more: str) -> str:
        words = [sys.executable, "-c", program.format(load=load)]
        return subprocess.run(words, env=without | more, capture_output=True, text=True, check=True).stdout.strip()

    assert chosen(1e6) == "passive"
    assert chosen(0.0) == "None"
    assert chosen(1e6, OMP_WAIT_POLICY="active") == "active"
