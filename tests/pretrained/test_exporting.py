"""An exported run gives the same scores and the same greedy text in transformers, and its tokenizer the same ids."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.refusals import refused

import glassformer as gf
from glassformer.foundation.errors import ConfigError, RunError
from glassformer.foundation.yaml_text import parse_yaml
from glassformer.generation.texts import prompt_ids
from glassformer.model.config import ModelConfig
from glassformer.model.transformer import build_model
from glassformer.pretrained.exporting import fitting_architecture, model_card
from glassformer.runs.directory import RunDirectory

LLAMA = {"positions": "rotary", "norm": "rms", "feedforward": "gated", "bias": False}
BERT = {"causal": False, "block": "post", "embedding_norm": True, "segments": 2, "dropout": 0.1}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "char": ({}, {"kind": "char"}, "GPT2LMHeadModel"),
    "word": ({"positions": "sinusoidal", "bias": False}, {"kind": "word", "min_count": 1}, "GPT2LMHeadModel"),
    "byte": ({"positions": "none", "head": "untied", "feedforward": "relu"}, {"kind": "byte"}, "GPT2LMHeadModel"),
    "bpe": ({"feedforward": "gelu-tanh"}, {"kind": "bpe", "vocab": 270}, "GPT2LMHeadModel"),
    "llama": ({**LLAMA, "mixer": {"kind": "grouped", "kv_heads": 1}, "head": "untied"}, {"kind": "char"}, "LlamaForCausalLM"),
    "llama-bias": ({**LLAMA, "bias": True}, {"kind": "bpe", "vocab": 262}, "LlamaForCausalLM"),
    "qwen": ({**LLAMA, "mixer": {"kind": "grouped", "bias": True}}, {"kind": "word", "min_count": 1}, "LlamaForCausalLM"),
}


def exported(model: dict[str, Any], tokenizer: dict[str, Any], tiny: dict[str, Any], place: Path) -> Any:
    """A run of a few steps, and its export beside it."""
    sizes = {"width": 12, "heads": 2, "layers": 2, "context": 16}
    training = {"steps": 8, "batch_size": 5, "lr": 0.02, "device": "cpu"}
    recipe = {"data": tiny["data"], "tokenizer": tokenizer, "model": {**sizes, **model}, "training": training, "seed": 4}
    run = gf.train(recipe, out=place / "run")
    return run, run.save_pretrained(place / "folder")


@pytest.mark.parametrize("case", CASES)
def test_the_same_scores_and_the_same_greedy_text(
    case: str, tiny: dict[str, Any], tmp_path: Path, transformers: Any, unchecked: None
) -> None:
    model, tokenizer, class_name = CASES[case]
    run, result = exported(model, tokenizer, tiny, tmp_path)
    assert result.class_name == class_name
    theirs, loading = transformers.AutoModelForCausalLM.from_pretrained(result.folder, output_loading_info=True)
    assert type(theirs).__name__ == class_name
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    reader = transformers.AutoTokenizer.from_pretrained(result.folder)
    text = "the cat sat on a mat"
    assert reader(text, add_special_tokens=False)["input_ids"] == run.tokenizer.encode(text)
    prompt = reader("the cat", return_tensors="pt")["input_ids"]
    assert prompt[0].tolist() == prompt_ids(run.tokenizer, "the cat")
    with torch.no_grad():
        torch.testing.assert_close(theirs.eval()(input_ids=prompt).logits, run.model(prompt), atol=1e-5, rtol=0)
    room = 16 - prompt.shape[1]  # beyond its context GPT-2 cannot write there
    written = theirs.generate(prompt, max_new_tokens=room, do_sample=False, pad_token_id=0)[0, prompt.shape[1] :].tolist()
    if run.tokenizer.stop_id in written:
        written = written[: written.index(run.tokenizer.stop_id)]
    ours = run.generate("the cat", temperature=0.0, max_new_tokens=room)[0]
    assert run.tokenizer.decode(written) == ours.text
    if run.tokenizer.kind != "word":  # whose spaces are guessed
        assert reader.decode(written) == ours.text


def test_an_encoder_of_ours(tiny: dict[str, Any], tmp_path: Path, transformers: Any) -> None:
    for head, class_name in (({"kind": "masked"}, "BertForMaskedLM"), ("pooled", "BertModel"), ("tied", "BertModel")):
        config = ModelConfig.parse({"width": 12, "heads": 2, "layers": 2, "context": 16, **BERT, "head": head})
        model = build_model(config, 31, seed=3).eval()
        folder = imported_like(model, tmp_path / class_name / config.head.kind)
        theirs = getattr(transformers, class_name).from_pretrained(folder).eval()
        reader = transformers.AutoTokenizer.from_pretrained(folder)
        assert reader("abc z")["input_ids"] == [1, 2, 3, 0, 26]
        ids = torch.randint(31, (2, 9), generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            output = theirs(input_ids=ids)
            if head == {"kind": "masked"}:
                torch.testing.assert_close(output.logits, model(ids), atol=1e-5, rtol=0)
            else:
                torch.testing.assert_close(output.last_hidden_state, model.features(ids), atol=1e-5, rtol=0)


def imported_like(model: Any, place: Path) -> Path:
    """An untrained model of ours, exported: no run of ours trains an encoder in a blink."""
    from glassformer.data.tokenizers.char import CharTokenizer
    from glassformer.pretrained.exporting import export
    from glassformer.runs.directory import RunDirectory

    directory = RunDirectory(place / "run")
    directory.root.mkdir(parents=True)
    directory.write_recipe({"about": "a test", "data": {"set": "none"}})
    characters = CharTokenizer([chr(97 + number) for number in range(30)])
    return export(directory, model, characters, place / "folder", step=0).folder


NO_CLASS = [
    ({"positions": "alibi"}, "model.positions=alibi is not learned or sinusoidal or none, which GPT2LMHeadModel"),
    ({"mixer": "synthesizer"}, "model.mixer=synthesizer is not dot"),
    ({"mixer": ["dot", "synthesizer"]}, "model.mixer=synthesizer is not dot"),
    ({"merge": "shuffle"}, "model.merge=shuffle, which GPT2LMHeadModel"),
    ({"stack": "shared"}, "model.stack=shared, which GPT2LMHeadModel"),
    ({"head": "tied-frequency"}, "model.head=tied-frequency is not tied or untied"),
    ({"head": {"kind": "untied", "bias": True}}, "model.head.bias=true"),
    ({"block": "post"}, "model.block=post is not pre"),
    ({**LLAMA, "merge": "shift"}, "model.merge=shift, which LlamaForCausalLM"),
    ({**BERT, "embedding_norm": False}, "model.embedding_norm=false is not true, which BertForMaskedLM"),
    ({"causal": False, "head": {"kind": "classifier", "hidden": [8]}}, "--onnx"),
    ({**LLAMA, "bias": True, "mixer": {"kind": "grouped", "bias": False}}, "a bias of attention.output"),
]


@pytest.mark.parametrize(("model", "sentence"), NO_CLASS, ids=str)
def test_parts_without_a_class_are_named(model: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        fitting_architecture(ModelConfig.parse(model))


def test_a_refusal_writes_nothing(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    with refused(RunError, "folder-not-empty"):
        gf.load(trained).save_pretrained(tmp_path / "full")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "mine.txt"]


def test_an_export_is_a_folder_we_import(trained: Path, tmp_path: Path) -> None:
    run = gf.load(trained)
    run.save_pretrained(tmp_path / "folder")
    again = gf.load(tmp_path / "folder")
    ids = torch.arange(12).unsqueeze(0)
    assert torch.equal(again.model(ids), run.model(ids))
    text = "the cat sat on a mat\nand then; é"
    assert again.tokenizer.encode(text) == run.tokenizer.encode(text)
    assert sorted(file.name for file in (tmp_path / "folder").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> gf.Run:
    copy = shutil.copytree(trained, tmp_path / "my-run")
    shutil.rmtree(copy / "evaluations", ignore_errors=True)  # the shared run may have been evaluated by another test
    return gf.load(copy)


def test_what_it_says(run: gf.Run) -> None:
    bare = model_card(run.directory, "GPT2LMHeadModel", parameters=1234, step=12)
    assert "None were measured for this checkpoint" in bare
    evaluation = run.evaluation("validation")
    card = model_card(run.directory, "GPT2LMHeadModel", parameters=1234, step=12, notes=["Something to know."])
    head, _, body = card.removeprefix("---\n").partition("---\n")
    assert parse_yaml(head, "card") == {"library_name": "transformers", "tags": ["glassformer"]}
    assert body.lstrip().startswith("# my-run")
    assert "1,234 parameters" in card
    assert "AutoModelForCausalLM" in card
    assert "Note: Something to know." in card
    assert f"| loss | {evaluation.metrics['loss']} |" in card
    assert "[" in str(evaluation.metrics["loss"])  # an interval
    assert "bigram" in card
    assert "## Checks\n\n- causality: passed" in card
    assert f"sha256 `{run.directory.read_environment()['data']['sha256']}`" in card
    assert "width: 12" in card
    assert "Licence\n\nNone is stated" in card


def test_a_tainted_run_says_so(run: gf.Run) -> None:
    environment = run.directory.read_environment()
    environment.pop("schema")
    run.directory.write_environment({**environment, "tainted": "this model breaks causality"})
    assert "- TAINTED: this model breaks causality" in model_card(run.directory, "GPT2LMHeadModel", parameters=1, step=12)


def test_a_run_without_an_environment(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_recipe({"about": "By hand.", "data": {"path": "mine.txt"}})
    card = model_card(directory, "BertModel", parameters=1, step=0)
    assert "Trained on mine.txt." in card
    assert "Not recorded in the run" in card
    assert "import AutoTokenizer, AutoModel\n" in card


def test_a_card_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    """It is published. What only looks like the way to a file stays."""
    base, table = tmp_path / "my models" / "encoder", tmp_path / "t.csv"
    directory = RunDirectory(tmp_path / "run")
    directory.root.mkdir()
    about = f"t with model.folder={base}, so/data."
    directory.write_recipe({"about": about, "data": {"path": str(table), "x": "/data"}, "model": {"folder": str(base)}})
    directory.write_environment({"data": {"source": str(table), "sha256": "abc"}})
    card = model_card(directory, "BertModel", parameters=1, step=0)
    assert str(tmp_path) not in card
    assert "t with model.folder=encoder, so/data." in card
    assert "Trained on t.csv" in card


def test_an_imported_run(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_recipe({"data": {"set": "none"}})
    directory.write_environment({"imported": {"sha256": {"model.safetensors": "abc"}}})
    card = model_card(directory, "BertForMaskedLM", parameters=1, step=0)
    assert "the weights were imported from model.safetensors (sha256 `abc`)" in card
    assert "AutoModelForMaskedLM" in card
