"""A check that passed is taken again only for the very same architecture, build and machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glassformer import remembered_checks
from glassformer.assembly import prepare_data
from glassformer.checks.report import CheckReport, Finding
from glassformer.data.cache import cache_folder
from glassformer.experiment import recipe_check_key
from glassformer.foundation.runtime import Runtime
from glassformer.model.config import ModelConfig
from glassformer.model.slots import MERGES, MergeConfig
from glassformer.model.transformer import build_model
from glassformer.recipe import Recipe
from glassformer.remembered_checks import cache_check, cached_check, check_key
from glassformer.require_checks import require_checks

SMALL = {"width": 12, "heads": 3, "layers": 1, "context": 7}
RUNTIME = Runtime(torch.device("cpu"), "float32", 1)
PASSED = CheckReport("a model", tested={"causality": "by trying"})


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def key(**other) -> str | None:
    settings = {"vocabulary": 11, "outputs": None, "laws": frozenset({"causality"}), "runtime": RUNTIME}
    return check_key(ModelConfig.parse({**SMALL, **other.pop("model", {})}), **{**settings, **other})


def test_anything_that_differs_is_another_key(monkeypatch) -> None:
    keys = [
        key(),
        key(model={"merge": "reweight"}),
        key(model={"context": 8}),
        key(vocabulary=12),
        key(outputs=2),
        key(laws=frozenset()),
        key(runtime=replace(RUNTIME, precision="bf16")),
        key(runtime=replace(RUNTIME, device=torch.device("meta"))),
        key(paths={"training": {"batch_size": 4}}),
        key(paths={"training": {"batch_size": 8}}),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(remembered_checks, "code_sha256", lambda: "another build")
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "0.0")
        keys.append(key())
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_with_a_plugin_the_checks_always_run(monkeypatch) -> None:
    monkeypatch.setattr(remembered_checks, "loaded_plugins", lambda: [{"file": "mine.py", "sha256": "1"}])
    assert key() is None


def test_a_class_of_a_notebook_is_checked_every_time(tmp_path, monkeypatch) -> None:
    """Edited in place it has the name it had, and no sum tells: it may leak now."""
    text = tmp_path / "letters.txt"
    text.write_text("abcdabdcab\n" * 20)
    plain = {"model": SMALL, "data": {"path": str(text)}, "training": {"steps": 1}}
    data = prepare_data(Recipe.parse(plain))
    assert recipe_check_key(Recipe.parse(plain), data, RUNTIME) is not None
    monkeypatch.setattr(MERGES, "_variants", dict(MERGES._variants))

    @MERGES.variant("edited")
    class EditedConfig(MergeConfig):
        """This class, or one that was edited since."""

        def build(self, dims, layer):
            raise NotImplementedError

    recipe = Recipe.parse({**plain, "model": {**SMALL, "merge": "edited"}})
    assert recipe_check_key(recipe, data, RUNTIME) is None


def test_checks_run_once_and_says_when_it_remembers(monkeypatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr("glassformer.require_checks.check_model", lambda *_, **__: calls.append("checked") or PASSED)
    model, heard = build_model(ModelConfig.parse(SMALL), 11, seed=0), []

    class Listener:
        say = heard.append

    for _ in range(2):
        assert require_checks(model, key=key(), watch=Listener()).passed  # type: ignore[arg-type]
    assert calls == ["checked"]
    assert "--recheck" in heard[1]
    require_checks(model, key=None)
    assert len(calls) == 2


def test_only_what_passed_is_kept_and_damage_is_no_answer() -> None:
    leak = Finding("causality", "blocks.0", 1, 0, 1.0, {})
    for number, report in enumerate([replace(PASSED, findings=(leak,)), replace(PASSED, cannot_tell={"batch": "no"})]):
        cache_check(f"k{number}", report)
        assert cached_check(f"k{number}") is None
    cache_check("whole", PASSED)
    found = cached_check("whole")
    assert found is not None
    assert found.tested == PASSED.tested
    (cache_folder() / "checks" / "whole" / "report.json").write_text('{"checks": {"findings": []')
    assert cached_check("whole") is None
    cache_check("whole", PASSED)
    assert cached_check("whole") is not None
