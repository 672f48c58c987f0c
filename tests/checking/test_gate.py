"""No number before the checks pass; a check that passed is taken again only for the same architecture, build and machine."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.encoders import WORDS
from tests.listener import Listener
from tests.refusals import refused
from torch import nn

from glassformer.assembly import prepare_data
from glassformer.checking import gate
from glassformer.checking.gate import cache_check, cached_check, check_key, raise_or_warn, require_network, start_key, taint_of
from glassformer.checks.check_report import CheckReport, Finding
from glassformer.data.disk_cache import cache_folder
from glassformer.experiment import train
from glassformer.foundation.errors import CannotTell, CheckFailed
from glassformer.foundation.progress import SILENT
from glassformer.foundation.runtime import Runtime
from glassformer.model.config import ModelConfig
from glassformer.model.network import MODELS, NetworkConfig
from glassformer.model.slots import MERGES, MergeConfig
from glassformer.model.transformer import Transformer, build_model
from glassformer.networks.pretrained_encoder import PretrainedConfig
from glassformer.recipe import Recipe
from glassformer.run import load

SMALL = {"width": 12, "heads": 3, "layers": 1, "context": 7}
RUNTIME = Runtime(torch.device("cpu"), "float32", 1)
PASSED = CheckReport("a model", tested={"causality": "by trying"})


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))


def key(**other) -> str | None:
    settings = {"laws": frozenset({"causality"}), "runtime": RUNTIME, "vocabulary": 11, "outputs": None}
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
        key(training={"batch_size": 4}),
        key(training={"batch_size": 8}),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(gate, "code_sha256", lambda: "another build")
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "0.0")
        keys.append(key())
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_with_a_plugin_the_checks_always_run(monkeypatch) -> None:
    monkeypatch.setattr(gate, "loaded_plugins", lambda: [{"file": "mine.py", "sha256": "1"}])
    assert key() is None


def test_a_class_of_a_notebook_is_checked_every_time(tmp_path, monkeypatch) -> None:
    """Edited in place it has the name it had, and no checksum tells: it may leak now."""
    text = tmp_path / "letters.txt"
    text.write_text("abcdabdcab\n" * 20)
    plain = {"model": SMALL, "data": {"path": str(text)}, "training": {"steps": 1}}
    data = prepare_data(Recipe.parse(plain))
    assert start_key(Recipe.parse(plain), data, RUNTIME) is not None
    monkeypatch.setattr(MERGES, "_variants", dict(MERGES._variants))

    @MERGES.variant("edited")
    class EditedConfig(MergeConfig):
        """This class, or one that was edited since."""

        def build(self, dims):
            raise NotImplementedError

    recipe = Recipe.parse({**plain, "model": {**SMALL, "merge": "edited"}})
    assert start_key(recipe, data, RUNTIME) is None


def test_checks_run_once_and_says_when_it_remembers(monkeypatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr("glassformer.checking.gate.check_model", lambda *_, **__: calls.append("checked") or PASSED)
    model, heard = build_model(ModelConfig.parse(SMALL), 11, seed=0), []

    class Listener:
        say = heard.append

    for _ in range(2):
        assert require_network(model, key=key(), watch=Listener()).passed  # type: ignore[arg-type]
    assert calls == ["checked"]
    assert "--recheck" in heard[1]
    require_network(model, key=None)
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


def encoder_key(folder: Path, **settings: Any) -> str | None:
    model = PretrainedConfig.parse({"folder": str(folder), "context": 12, **settings})
    return check_key(model, frozenset(), RUNTIME, vocabulary=WORDS, outputs=2)


def test_a_pretrained_encoder_is_known_by_its_weights_its_settings_and_its_library(bert_folder, tmp_path, monkeypatch) -> None:
    folder = shutil.copytree(bert_folder, tmp_path / "bert")
    first = encoder_key(folder)
    keys = [first, encoder_key(folder, tuning="lora"), encoder_key(folder, pool="first"), encoder_key(bert_folder)]
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "layer_norm_eps": 0.1}))
    keys.append(encoder_key(folder))
    (folder / "config.json").write_bytes((bert_folder / "config.json").read_bytes())
    assert encoder_key(folder) == first
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    keys.append(encoder_key(folder))
    with monkeypatch.context() as patch:
        patch.setattr("glassformer.networks.pretrained_encoder.metadata.version", lambda name: "0.0")
        keys.append(encoder_key(folder))
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_a_network_that_says_nothing_of_its_weights_is_checked_every_time() -> None:
    class Unknown(NetworkConfig):
        kind: ClassVar[str] = "unknown"

    assert Unknown.model_construct(context=7, causal=False).check_cache_inputs() is None


@pytest.mark.parametrize("pretrained", [True, False])
def test_train_and_evaluate_pay_once(pretrained: bool, bert_folder, tmp_path, monkeypatch) -> None:
    """For the same start and the same trained weights; trained weights are checked though fresh ones passed."""
    calls: list[str] = []
    monkeypatch.setattr("glassformer.checking.gate.check_model", lambda *_, **__: calls.append("checked") or PASSED)
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"{'ab'[n % 2]} w{4 + n % 2} w{6 + n % 5}\n" for n in range(60)))
    own = {**SMALL, "causal": False, "head": "classifier"}
    model = {"kind": "pretrained", "folder": str(bert_folder), "tuning": "head", "context": 12} if pretrained else own
    recipe = {"data": {"path": str(texts), "format": "label-text"}, "objective": "labels", "model": model}
    recipe |= {"training": {"steps": 2, "batch_size": 4, "lr": 0.01}} | ({} if pretrained else {"tokenizer": "word"})
    heard = Listener()
    for name, seed in (("one", 1), ("two", 2)):
        train(recipe, out=tmp_path / name, seed=seed, recheck=False, watch=heard)
    assert len(calls) == 1
    assert any("Checks passed before" in sentence for sentence in heard.said)
    for name in ("one", "one", "two"):
        load(tmp_path / name, recheck=False).evaluate()
    assert len(calls) == 3  # the weights of one, once; those of two
    load(tmp_path / "one").evaluate()
    assert len(calls) == 4
    run = load(tmp_path / "one", recheck=False)
    run.evaluate(model=run.model)  # it may have been altered
    assert len(calls) == 5


SMALL = {"width": 12, "heads": 3, "layers": 1, "context": 7}


def model(merge: str) -> Transformer:
    return build_model(ModelConfig.parse({**SMALL, "merge": merge}), 11, seed=0)


def test_an_honest_model_passes_and_carries_no_taint() -> None:
    report = require_network(model("concat"))
    assert report.passed
    assert taint_of(report) is None


def test_the_published_reweight_is_stopped_with_the_place() -> None:
    with refused(CheckFailed, "leak", "blocks.0.attention.merge"):
        require_network(model("reweight"))


def test_allowed_leaks_are_said_and_tainted() -> None:
    listener = Listener()
    report = require_network(model("reweight"), allow_leaks=True, watch=listener)
    taint = taint_of(report)
    assert taint is not None
    assert "causality" in taint
    assert listener.said
    assert listener.said[0].startswith("TAINTED")


def test_what_could_not_be_judged_is_not_trained_and_never_untainted() -> None:
    unknown = replace(PASSED, cannot_tell={"batch": "it raised"})
    with refused(CannotTell, "not-judged", "batch", "--allow-leaks"):
        raise_or_warn(unknown, "Checks", False, SILENT)
    listener = Listener()
    raise_or_warn(unknown, "Checks", True, listener)
    assert listener.said[0].startswith("TAINTED")
    assert "batch" in (taint_of(unknown) or "")


class RaisesInTraining(nn.Module):
    """Its laws cannot be judged: it does not run in one of the ways in which they are tested."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if not self.training and torch.is_grad_enabled():
            raise RuntimeError("no gradients here")
        return self.table(ids)


def test_every_record_of_an_unjudged_run_is_tainted(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(MODELS, "_variants", dict(MODELS._variants))

    @MODELS.variant("raises")
    class RaisesConfig(NetworkConfig):
        """A network that cannot be judged."""

        def build(self, vocabulary, *, outputs=None, seed):
            return RaisesInTraining(vocabulary)

    text = tmp_path / "letters.txt"
    text.write_text("abcdabdcab\n" * 40)
    recipe = {"data": {"path": str(text), "document": "line"}, "model": {"kind": "raises", "context": 5}}
    recipe |= {"training": {"steps": 2, "batch_size": 4}}
    with refused(CannotTell, "not-judged", "no gradients here"):
        train(recipe, out=tmp_path / "one")
    run = train(recipe, out=tmp_path / "two", allow_leaks=True)
    assert "could not be judged" in (run.tainted or "")
    assert all(record["tainted"] for record in run.records())


def test_a_step_that_only_differs_is_refused_with_the_way_to_the_plain_one() -> None:
    other = Finding("path", "the captured step", 0, 0, 0.5, {"measured": "loss"})
    leak = Finding("causality", "the compiled loss", 3, 1, 0.5, {})
    with refused(CheckFailed, "step-differs", "training.compile=false") as stopped:
        raise_or_warn(CheckReport("it", findings=(other,)), "Checks", False, SILENT)
    assert stopped.value.only_differs
    told = "the captured step of this run differs from the plain one; its figures are not those of the recipe."
    assert taint_of(CheckReport("it", findings=(other, other))) == told
    with refused(CheckFailed, "leak") as stopped:
        raise_or_warn(CheckReport("it", findings=(leak, other)), "Checks", False, SILENT)
    assert not stopped.value.only_differs


def test_whoever_waits_sees_how_far_the_checks_are() -> None:
    shares: list[tuple[str, float, float]] = []

    class Counting(Listener):
        def progress(self, what: str, done: float, total: float, facts: object = None) -> None:
            shares.append((what, done, total))

    require_network(model("concat"), watch=Counting())
    assert shares[0] == ("checks", 0, 100)
    assert shares[-1] == ("checks", 100, 100)
    assert [done for _, done, _ in shares] == sorted(done for _, done, _ in shares)
    assert len(shares) > 3
