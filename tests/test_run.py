"""The Run a user holds: read from its folder, measured, talked to; damage and absence are sentences."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from tests.listener import Listener
from tests.refusals import refused

import glassformer as gf
from glassformer import run as run_module
from glassformer.foundation import runtime
from glassformer.foundation.errors import CheckFailed, DataError, RunError, UsageError
from glassformer.foundation.progress import SILENT
from glassformer.run import load
from glassformer.runs.directory import RunDirectory
from glassformer.runs.weights import saved_tensors


@pytest.fixture
def copy(trained, tmp_path) -> Path:
    shutil.copytree(trained, tmp_path / "copy")
    return tmp_path / "copy"


def test_what_one_sees(trained) -> None:
    run = gf.load(trained)
    assert run.status == "finished"
    assert run.tainted is None
    assert run.recipe.model.width == 12
    summary = run.summary()
    assert (summary["step"], summary["steps"], summary["tainted"]) == (12, 12, False)
    assert summary["validation_loss"] == pytest.approx(run.records()[-1]["validation_loss"])
    assert repr(run).startswith(f"Run({str(trained)!r}, finished at step 12, validation loss ")
    assert json.loads(json.dumps(summary)) == summary


def test_metrics_are_a_frame_with_a_row_for_every_step(trained) -> None:
    pytest.importorskip("pandas")
    run = gf.load(trained)
    frame = run.metrics()
    assert list(frame["step"]) == sorted({record["step"] for record in run.records()})
    assert frame["validation_loss"].iloc[-1] == run.records()[-1]["validation_loss"]
    assert frame["loss"].notna().all()


def test_in_a_notebook_without_a_network(trained) -> None:
    page = gf.load(trained)._repr_html_()
    assert page.startswith("<table>")
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)  # the names of SVG load nothing
    assert page.count("<svg") == 1


def test_names_are_escaped(copy) -> None:
    odd = copy.with_name("a<b>bold")
    copy.rename(odd)
    assert "a<b>bold" not in gf.load(odd)._repr_html_()


def test_which_checkpoint(trained) -> None:
    run = gf.load(trained)
    assert run.checkpoint("last").step == run.checkpoint(12).step == run.checkpoint("12").step == 12
    assert run.checkpoint("best").step == run.checkpoint("last").state["best_step"]
    with refused(RunError, "no-such-checkpoint"):
        run.checkpoint(7)
    with refused(UsageError, "bad-checkpoint"):
        run.checkpoint("newest")


def test_no_best_was_kept(tiny, tmp_path, unchecked) -> None:
    run = gf.train(tiny, out=tmp_path / "run", set={"data.split.validation": 0.0})
    with refused(RunError, "no-best-checkpoint", "checkpoint.best=true"):
        run.checkpoint("best")


def test_a_run_copied_without_its_optimizer_is_read_from_its_weights(copy, trained) -> None:
    """The figures and the text of the whole run; that something is missing is said once a checkpoint, not once a look."""
    for file in copy.rglob("optimizer.safetensors"):
        file.unlink()
    listener = Listener()
    run, whole = load(copy, watch=listener), load(trained)
    assert run.evaluate().metrics == whole.evaluate().metrics
    assert run.generate("a", max_new_tokens=5, seed=1) == whole.generate("a", max_new_tokens=5, seed=1)
    (sentence,) = listener.said
    assert sentence.startswith(f"{RunDirectory(copy).checkpoint(12) / 'optimizer.safetensors'} is missing. The weights")
    assert run.checkpoint(8).step == 8
    assert run.checkpoint("best").step == whole.checkpoint("best").step
    assert len(listener.said) == len({8, 12, run.checkpoint("best").step})


def damage_weights(folder: Path, step: int) -> Path:
    file = RunDirectory(folder).checkpoint(step) / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    return file


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(copy) -> None:
    file = damage_weights(copy, 12)
    listener = Listener()
    run = load(copy, watch=listener)
    assert run.checkpoint("last").step == 8
    assert f"{file} is damaged" in listener.said[0]
    with refused(RunError, "wrong-checksum"):
        run.checkpoint(12)


def test_a_run_without_a_checkpoint(copy) -> None:
    shutil.rmtree(copy / "checkpoints")
    run = gf.load(copy)
    for ask in (run.model_at, run.evaluation, run.evaluate):
        with refused(RunError, "no-checkpoint"):
            ask()


def test_what_is_no_run(tmp_path) -> None:
    with refused(RunError, "not-a-run"):
        gf.load(tmp_path / "absent")


def test_a_run_that_needs_a_plugin_asks_for_it(copy) -> None:
    recipe = copy / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("kind: dot", "kind: my_mixer").replace("    fused: true\n", ""))
    environment = json.loads((copy / "environment.json").read_text())
    environment["plugins"] = [{"file": "my_mixer.py", "sha256": "0"}]
    (copy / "environment.json").write_text(json.dumps(environment))
    with refused(RunError, "recipe-not-readable", "'my_mixer'", "--plugin my_mixer.py"):
        _ = gf.load(copy).recipe


def test_the_model_is_the_one_that_was_saved(trained) -> None:
    run = gf.load(trained)
    model, saved = run.model, run.checkpoint("last").model
    assert not model.training
    assert all(torch.equal(tensor, saved[name]) for name, tensor in saved_tensors(model).items())
    untrained = run.untrained()
    assert any(not torch.equal(tensor, saved[name]) for name, tensor in saved_tensors(untrained).items())


def test_figures_beside_the_baselines(trained) -> None:
    run = gf.load(trained)
    result = run.evaluate()
    document = result.to_dict()
    assert {"loss", "perplexity", "document_perplexity", "bits_per_byte"} <= set(document["metrics"])
    assert {"uniform", "unigram"} <= set(document["baselines"])
    assert document["tainted"] is False
    assert set(document["metrics"]["loss"]) >= {"value", "low", "high", "n"}
    assert document["metrics"]["loss"]["value"] == pytest.approx(run.summary()["validation_loss"], rel=1e-4)
    untrained = document["baselines"]["untrained"]["loss"]["value"]
    assert document["metrics"]["loss"]["value"] < untrained


def test_opening_the_test_split_is_recorded(copy) -> None:
    run = gf.load(copy)
    run.evaluate("validation")
    assert run.directory.openings() == []
    run.evaluate("test", checkpoint=8)
    run.evaluate("test")
    assert [opening["step"] for opening in run.directory.openings()] == [8, 12]


def test_a_split_that_is_not_there_is_no_opening(tiny, tmp_path, unchecked) -> None:
    run = gf.train(tiny, set={"data.split.test": 0.0}, out=tmp_path / "run")
    with refused(DataError, "no-split"):
        run.evaluate("test")
    assert run.directory.openings() == []


def test_a_file_and_single_texts(trained, tmp_path, tiny_text) -> None:
    run = gf.load(trained)
    other = tmp_path / "other.txt"
    other.write_text("\n".join(tiny_text.read_text().splitlines()[:30]) + "\n")
    assert run.evaluate(data=other).to_dict()["metrics"]["loss"]["n"] == 30
    first, second = run.evaluate_texts(["the cat sat on a mat", "xxxxxxxxxx hen hen"])
    assert first.to_dict()["metrics"]["loss"]["value"] < second.to_dict()["metrics"]["loss"]["value"]
    alone = run.evaluate_texts(["the cat sat on a mat"])[0]
    assert alone.to_dict()["metrics"]["loss"]["value"] == pytest.approx(first.to_dict()["metrics"]["loss"]["value"])


def test_predictions_are_written_token_by_token(trained, tmp_path) -> None:
    run = gf.load(trained)
    run.evaluate(predictions=tmp_path / "p.tsv")
    lines = (tmp_path / "p.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["position", "id", "token", "nats"]
    assert len(lines) == run.data.split("validation").num_tokens  # a title, and every token but the first
    mean = sum(float(line.split("\t")[3]) for line in lines[1:]) / (len(lines) - 1)
    assert mean == pytest.approx(run.evaluate().to_dict()["metrics"]["loss"]["value"], rel=1e-3)


def test_an_evaluation_is_measured_once_and_kept(copy, monkeypatch) -> None:
    run = gf.load(copy)
    first = run.evaluation()
    monkeypatch.setattr(type(run), "evaluate", lambda *a, **o: pytest.fail("measured again"))
    again = gf.load(copy).evaluation()
    assert again.to_dict()["metrics"] == first.to_dict()["metrics"]
    assert again.units is not None


def test_what_python_measures_is_kept_for_the_page(copy) -> None:
    file = RunDirectory(copy).evaluation_file("validation", 12)
    file.unlink(missing_ok=True)
    run = gf.load(copy)
    run.evaluate("train")
    run.evaluate(model=run.model)  # an altered one may be given there
    assert not file.exists()
    run.evaluate()
    assert file.exists()


def test_an_evaluation_is_kept_under_the_step_that_was_measured(copy, unchecked, monkeypatch) -> None:
    """Not under that of a damaged checkpoint, which going on writes again."""
    true = gf.load(copy).evaluation()
    file = RunDirectory(copy).evaluation_file("validation", 12)
    file.unlink()
    damage_weights(copy, 12)
    before = gf.load(copy).evaluation()
    assert [found.name for found in file.parent.iterdir()] == ["validation-step-8.json"]
    with monkeypatch.context() as once:
        once.setattr(gf.Run, "evaluate", lambda *a, **o: pytest.fail("measured again"))
        assert gf.load(copy).evaluation().step == before.step == 8

    gf.train(copy, resume=True)
    assert not file.exists()
    again = gf.load(copy).evaluation()
    assert (again.step, again.to_dict()["metrics"]) == (12, true.to_dict()["metrics"])


class TestParentRow:
    """The weights that a run started from, not what became of the parent since."""

    CHANGES: ClassVar = {"model.width": 12, "model.dropout": 0.0, "training.steps": 2}

    @pytest.fixture
    def child(self, tiny, trained, tmp_path, unchecked, monkeypatch):
        shutil.copytree(trained, tmp_path / "parent")
        monkeypatch.chdir(tmp_path)
        return gf.train(tiny, set={**self.CHANGES, "init_from": "parent"}, out=tmp_path / "child")

    def test_it_stays_when_the_parent_trains_on(self, child, tmp_path) -> None:
        first = child.evaluate().baselines["parent"]
        gf.train(tmp_path / "parent", set={"training.steps": 16, "checkpoint.keep": 9}, resume=True)
        assert gf.load(child.folder).evaluate().baselines["parent"] == first

    def test_it_is_found_from_another_folder(self, child, tmp_path, monkeypatch) -> None:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        run, parent = gf.load(child.folder), gf.load(tmp_path / "parent")
        assert "parent" in run.evaluate().baselines
        assert torch.equal(run.network_at(0).embedding.weight, parent.model_at(12).embedding.weight)

    def test_weights_that_are_gone_or_others_are_said(self, child, tmp_path) -> None:
        manifest = RunDirectory(tmp_path / "parent").checkpoint(12) / "manifest.json"
        listener, sums = Listener(), json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**sums, "sha256": {**sums["sha256"], "model.safetensors": "0"}}))
        found = load(child.folder, watch=listener).evaluate()
        assert "parent" not in found.baselines
        assert "started from step 12 of parent, but those weights no longer exist" in listener.said[0]
        assert listener.said[0] in found.notes


def test_it_writes(trained) -> None:
    run = gf.load(trained)
    (sample,) = run.generate("the cat", max_new_tokens=20, seed=1)
    assert sample.prompt == "the cat"
    assert sample.tokens == 20
    assert set(sample.text) <= set("the catsonmdirlp\n")
    assert run.generate("the cat", max_new_tokens=20, seed=1) == [sample]
    assert run.generate("the cat", max_new_tokens=20, seed=2) != [sample]
    two = run.generate(["the cat", "an old"], max_new_tokens=5, temperature=0)
    assert [s.prompt for s in two] == ["the cat", "an old"]
    assert run.generate(max_new_tokens=3)[0].tokens == 3  # an empty prompt begins like a line


def test_bf16_that_does_not_work_here_becomes_float32_with_a_sentence(trained, monkeypatch) -> None:
    said = []
    monkeypatch.setattr(runtime, "bf16_works", lambda device: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run, watch = gf.load(trained), SimpleNamespace(say=said.append)
    assert run.generate("the", max_new_tokens=9, precision="bf16", watch=watch) == run.generate("the", max_new_tokens=9)
    assert len(said) == 1
    assert "bf16 was asked for" in said[0]
    with refused(UsageError, "unknown-precision", "precision='half'"):
        run.generate("the", precision="half")


def test_it_stops_at_a_string_and_streams(trained) -> None:
    run = gf.load(trained)
    (whole,) = run.generate("the", max_new_tokens=40, temperature=0)
    stop = whole.text[10:12]
    pieces: list[str] = []
    (cut,) = run.generate("the", max_new_tokens=40, temperature=0, stop=[stop], on_text=pieces.append)
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert "".join(pieces) == cut.text
    assert cut.ended != whole.ended


def test_a_character_it_never_saw_is_a_sentence_or_unknown(trained) -> None:
    try:
        gf.load(trained).generate("Ω", max_new_tokens=2)
    except DataError as error:
        assert "Ω" in str(error)  # noqa: PT017  (either is allowed, a traceback is not)


def test_another_checkpoint_gets_a_model_of_its_own(trained) -> None:
    run = gf.load(trained)
    run.generate("the", max_new_tokens=1)
    first = run._made["generator"]
    run.generate("a", max_new_tokens=1)
    assert run._made["generator"] is first
    other = run.directory.steps()[0]
    run.generate("a", max_new_tokens=1, checkpoint=other)
    assert run._made["generator"] is not first
    assert run._made["generator"][0] == (other, "float32")


@pytest.fixture
def generating(trained, monkeypatch):
    """The model that would generate, and what was read and checked for it; bf16 is taken as if this machine had it."""
    run, done = gf.load(trained), []
    read = type(run).checkpoint
    monkeypatch.setattr(run_module, "generation_precision", lambda precision, say: (torch.device("cpu"), precision))
    monkeypatch.setattr(type(run), "checkpoint", lambda self, which="last": done.append(f"read {which}") or read(self, which))
    monkeypatch.setattr(run_module, "require_generation", lambda model, config, weights, **_: done.append("checked"))

    def generating(which, precision):
        done.clear()
        return run._generating_model(which, precision, SILENT), list(done)

    return generating


def test_it_is_read_again_only_for_another_checkpoint_or_precision(generating) -> None:
    first, done = generating("last", "float32")
    assert done == ["read last"]
    again, done = generating("last", "float32")
    assert again is first
    assert done == []
    assert generating(12, "float32")[0] is first  # the same one by its number
    low, done = generating("last", "bf16")
    assert done == ["read last", "checked"]
    assert low.embedding.weight.dtype == torch.bfloat16
    assert generating(8, "float32")[0] is not first


def test_a_model_that_fails_the_check_of_bf16_is_not_kept(generating, monkeypatch) -> None:
    def fails(*_, **__):
        raise CheckFailed("other scores")

    first, _ = generating("last", "float32")
    monkeypatch.setattr(run_module, "require_generation", fails)
    with pytest.raises(CheckFailed):
        generating("last", "bf16")
    assert generating("last", "float32")[0] is first
