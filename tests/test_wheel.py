"""The wheel: built from the tree, installed into an empty environment outside the clone, it runs the demo."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FEW = {
    "training.steps": 3,
    "model.width": 8,
    "model.heads": 2,
    "model.layers": 1,
    "model.context": 16,
    "training.batch_size": 2,
    "evaluation.every": 3,
}


def called(*words: object, cwd: Path) -> str:
    """What a program prints, without any of our folders on Python's path."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel; the other packages are those of this one."""
    place = tmp_path_factory.mktemp("wheel")
    tree = place / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", place / "dist", tree)
    called(sys.executable, *build, cwd=place)
    (wheel,) = (place / "dist").glob("glassformer-*.whl")
    venv.create(place / "empty", with_pip=False)
    python = place / "empty" / "bin" / "python"
    called(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=place)
    own = Path(called(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    (own / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")  # torch and the rest: nothing is fetched
    shutil.rmtree(tree)
    return python.parent


@pytest.mark.slow
def test_it_is_the_installed_package_with_all_its_files(programs: Path, tmp_path: Path) -> None:
    place = called(programs / "python", "-c", "import glassformer; print(glassformer.__file__)", cwd=tmp_path).strip()
    assert Path(place).is_relative_to(programs.parent)
    listed = json.loads(called(programs / "glassformer", "recipes", "--json", cwd=tmp_path))
    names = {recipe["name"] for recipe in listed["recipes"]}
    assert names == {file.stem for file in (ROOT / "src" / "glassformer" / "recipes").glob("*.yaml")}
    assert (Path(place).parent / "py.typed").is_file()
    assert called(programs / "glassformer", "--version", cwd=tmp_path).startswith("glassformer 0.1.0\n")


@pytest.mark.slow
def test_it_runs_the_demo(programs: Path, tmp_path: Path) -> None:
    settings = [word for key, value in FEW.items() for word in ("--set", f"{key}={value}")]
    words = ("demo", "--out", tmp_path / "demo", "--jobs", 1, *settings, "--json")
    document = json.loads(called(programs / "glassformer", *words, cwd=tmp_path))
    assert len(document["verdicts"]) == 4
    assert Path(document["report"]).is_file()
