"""The shape of the house: imports point down, every module says what it is and has a place on the map."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

OUTSIDE_THE_LAYERS = {"__init__.py", "__main__.py"}
NO_NAME = {"utils", "util", "helpers", "helper", "common", "misc"}
TORCH_FREE = (
    "foundation.config",
    "foundation.registry",
    "foundation.files",
    "foundation.estimate",
    "foundation.plugins",
    "runs.records",
    "runs.directory",
    "runs.overview",
    "evaluation.results",
    "evaluation.language_metrics",
    "evaluation.interval_estimates",
    "pages.page",
    "pages.html",
    "figures.curves",
    "data.prepare",
    "data.tokenizers.files",
    "study.study",
    "cli.main",
)


def upward(tree, modules) -> list[str]:
    """Every import that does not point down."""
    height = {name: level for level, names in enumerate(reversed(tree.layers())) for name in names}
    return [
        f"{module.path} imports {name}"
        for module in modules
        if module.path not in OUTSIDE_THE_LAYERS  # the package's own face, and the command
        for name in sorted(module.imports - {module.top})
        if height[name] >= height[module.top]
    ]


def test_every_top_has_its_layer(tree) -> None:
    tops = {module.top for module in tree.modules()} - {"__init__", "__main__"}
    assert tops == {name for line in tree.layers() for name in line}


def test_imports_point_down(tree) -> None:
    assert upward(tree, tree.modules()) == []


def test_the_page_shows_the_layers_and_the_map_every_module(tree) -> None:
    page = tree.PAGE.read_text(encoding="utf-8")
    assert tree.written(page) == page, "run `make map`"
    assert tree.the_map() == tree.MAP.read_text(encoding="utf-8"), "run `make map`"
    assert "| [`model/attention.py`]" in tree.the_map()


def test_every_module_begins_with_a_sentence(tree) -> None:
    assert [module.path for module in tree.modules() if not module.sentence.endswith((".", "?"))] == []


def test_no_module_is_called_after_nothing(tree) -> None:
    parts = {part for module in tree.modules() for part in Path(module.path).with_suffix("").parts}
    assert parts & NO_NAME == set()


def test_no_user_meets_an_assert_with_a_message_for_them(tree) -> None:
    """``assert`` is for ourselves; what a user can cause is raised."""
    found = [
        f"{module.path}:{node.lineno}"
        for module in tree.modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assert) and isinstance(node.msg, ast.JoinedStr)
    ]
    assert found == []


def test_what_reads_results_does_not_import_torch() -> None:
    program = (
        "import importlib, sys\n"
        f"for name in {TORCH_FREE!r}:\n"
        "    importlib.import_module('glassformer.' + name)\n"
        "    if 'torch' in sys.modules:\n"
        "        sys.exit(f'{name} imports torch')\n"
        "import glassformer\n"
        "dir(glassformer)\n"
        "sys.exit('glassformer imports torch' if 'torch' in sys.modules else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_recipe_is_read_without_matplotlib() -> None:
    program = (
        "import sys\n"
        "import glassformer.experiment\n"
        "from glassformer.recipe import load_recipe\n"
        "load_recipe('docstrings-char')\n"
        "sys.exit('training imports matplotlib' if 'matplotlib' in sys.modules else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def small_house(tree, tmp_path):
    """A package with one module to judge."""

    def build(path: str, text: str):
        file = tmp_path / "src" / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
        return tree.modules(tmp_path / "src")

    return build


@pytest.mark.parametrize(
    ("path", "text", "refused"),
    [
        ("model/a.py", "from glassformer.training.step import TrainStep\n", True),
        ("model/a.py", "def f():\n    import glassformer.experiment\n", True),
        ("model/a.py", "from glassformer.data.batches import Batch\n", True),  # a neighbour
        ("model/a.py", "from glassformer import runs\n", True),
        ("model/a.py", "from glassformer.foundation.errors import DataError\n", False),
        ("training/a.py", "from glassformer.model.losses import IGNORED\nimport torch\n", False),
        ("model/a.py", "from glassformer.model.dims import Dims\n", False),
    ],
)
def test_an_upward_import_is_refused(tree, small_house, path: str, text: str, refused: bool) -> None:
    assert bool(upward(tree, small_house(path, text))) == refused


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "docs/glossary.md"])
def test_links_lead_somewhere(tree, page: str) -> None:
    file = tree.ROOT / page
    links = re.findall(r"\]\(([^)#:\s]+)[^):]*\)", file.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (file.parent / link).exists()] == []
