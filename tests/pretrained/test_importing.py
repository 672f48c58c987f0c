"""A folder of transformers becomes a run whose scores are the same; exported again, its tensors are the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.refusals import refused

import glassformer as gf
from glassformer.foundation.errors import ConfigError, DataError, RunError
from glassformer.foundation.files import sha256_of_file
from glassformer.pretrained.importing import import_run, read_pretrained

LANGUAGE_MODELS = ["gpt2", "gpt2-untied", "llama", "llama-tied", "mistral", "mistral-window", "qwen2", "qwen3"]
LANGUAGE_MODELS += ["olmo2", "gemma2", "gpt-neox", "mixtral", "nanochat"]
NAMES = [*LANGUAGE_MODELS, "gpt2-bare", "bert", "bert-bare", "roberta"]


def scores_of(model: Any, ids_BT: torch.Tensor, **more: Any) -> torch.Tensor:
    """What the model of transformers gives: scores, or vectors where it has no scores."""
    with torch.no_grad():
        output = model(input_ids=ids_BT, **more)
    return output.logits if hasattr(output, "logits") else output.last_hidden_state


def ids(rows: int = 3, length: int = 17) -> torch.Tensor:
    return torch.randint(5, 300, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", NAMES)
def test_the_scores_are_the_same(name: str, model_of: Any, folder_of: Callable[..., Path], tmp_path: Path) -> None:
    import_run(folder_of(name), tmp_path / "run")
    ours = gf.load(tmp_path / "run").model
    theirs = scores_of(model_of(name), ids())
    with torch.no_grad():
        found = ours.features(ids()) if name.endswith("-bare") else ours(ids())
    torch.testing.assert_close(found, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_exported_again_the_tensors_are_the_same(name: str, folder_of: Callable[..., Path], tmp_path: Path) -> None:
    gf.load(folder_of(name)).save_pretrained(tmp_path / "again")
    before, after = (load_file(folder / "model.safetensors") for folder in (folder_of(name), tmp_path / "again"))
    if name == "gpt2-bare":  # its tied head needs no tensor, so it is exported with one
        before = {f"transformer.{key}": tensor for key, tensor in before.items()}
    if name == "qwen2":  # exported as a Llama, whose outputs have biases where its queries have
        before |= {key: torch.zeros(24) for key in after if key.endswith("o_proj.bias")}
    assert before.keys() == after.keys()
    for key, tensor in before.items():
        assert torch.equal(tensor, after[key]), key


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_transformers_opens_the_export_and_gives_the_same_scores(
    name: str, model_of: Any, transformers: Any, folder_of: Callable[..., Path], tmp_path: Path
) -> None:
    exported = gf.load(folder_of(name)).save_pretrained(tmp_path / "again")
    again, loading = transformers.AutoModelForCausalLM.from_pretrained(exported.folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    torch.testing.assert_close(scores_of(again.eval(), ids()), scores_of(model_of(name), ids()), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_generation_with_a_cache_is_as_without(name: str, folder_of: Callable[..., Path]) -> None:
    """Greedy text, and every score of a row that is read token by token."""
    run = gf.load(folder_of(name))
    model = run.model.eval()
    with torch.no_grad():
        whole, cache, read = model(ids()), model.new_cache(rows=3), []
        for position in range(ids().shape[1]):
            place = torch.full((3, 1), position)
            cache.place(place, position + 1)
            read.append(model(ids()[:, position : position + 1], position_ids_BT=place, cache=cache))
    torch.testing.assert_close(torch.cat(read, dim=1), whole, atol=1e-5, rtol=0)
    prompt = run.tokenizer.encode("the cat")
    expected = list(prompt)
    with torch.no_grad():
        for _ in range(6):
            expected.append(int(model(torch.tensor([expected]))[0, -1].argmax()))
    expected = expected[len(prompt) :]
    if run.tokenizer.stop_id in expected:
        expected = expected[: expected.index(run.tokenizer.stop_id)]
    assert run.generate("the cat", max_new_tokens=6, temperature=0.0)[0].ids == tuple(expected)


WINDOWS_OF_OLDER_FOLDERS: list[tuple[str, dict[str, Any], list[int | None]]] = [
    ("gemma2", {}, [4, None]),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}, [None, 4]),
    ("qwen2", {"sliding_window": 4}, [None, None]),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 4}, [None, None]),  # from layer 28 on
    ("mistral", {"sliding_window": 4}, [4, 4]),
]


@pytest.mark.parametrize(("name", "settings", "windows"), WINDOWS_OF_OLDER_FOLDERS)
def test_windows_of_folders_without_layer_types(
    name: str,
    settings: dict[str, Any],
    windows: list[int | None],
    folder_of: Callable[..., Path],
    transformers: Any,
    tmp_path: Path,
) -> None:
    """As the hub's config.json of Gemma 2 and Qwen2 is; transformers reads the same windows from the folder and our export."""
    folder = copied(folder_of(name), tmp_path / "older")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for left_out in ("layer_types", "use_sliding_window", "max_window_layers"):
        config.pop(left_out, None)
    (folder / "config.json").write_text(json.dumps({**config, **settings}), encoding="utf-8")
    run = gf.load(folder)
    assert [run.model.config.of_layer(layer).mixer.window for layer in range(2)] == windows
    exported = run.save_pretrained(tmp_path / "again").folder
    with torch.no_grad():
        for place in (folder, exported):
            theirs = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
            torch.testing.assert_close(run.model(ids()), scores_of(theirs, ids()), atol=1e-5, rtol=0)


def test_segments_and_padding_as_there(model_of: Any, folder_of: Callable[..., Path]) -> None:
    ours, theirs = gf.load(folder_of("bert")).model, model_of("bert")
    segments_BT = (torch.arange(17) > 8).long().expand(3, -1)
    key_padding_mask_BS = torch.zeros(3, 17, dtype=torch.bool)
    key_padding_mask_BS[1, 12:] = True
    expected = scores_of(theirs, ids(), token_type_ids=segments_BT, attention_mask=(~key_padding_mask_BS).long())
    found = ours(ids(), segments_BT=segments_BT, key_padding_mask_BS=key_padding_mask_BS)
    torch.testing.assert_close(found[~key_padding_mask_BS], expected[~key_padding_mask_BS], atol=1e-5, rtol=0)
    assert not torch.allclose(found, ours(ids(), key_padding_mask_BS=key_padding_mask_BS), atol=1e-3)


def test_the_pooled_vector(model_of: Any, folder_of: Callable[..., Path]) -> None:
    ours = gf.load(folder_of("bert-bare")).model
    expected = model_of("bert-bare")(input_ids=ids()).pooler_output
    torch.testing.assert_close(ours.head.pooled(ours.features(ids())), expected, atol=1e-5, rtol=0)


def test_shards_and_half_precision(model_of: Any, folder_of: Callable[..., Path], tmp_path: Path) -> None:
    sharded = folder_of("llama", max_shard_size="20KB")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    whole, parts = read_pretrained(folder_of("llama")), read_pretrained(sharded)
    assert all(torch.equal(tensor, parts.weights[name]) for name, tensor in whole.weights.items())
    model_of("gpt2").bfloat16().save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder_of("gpt2") / "tokenizer.json").read_bytes())
    assert {tensor.dtype for tensor in read_pretrained(tmp_path).weights.values()} == {torch.float32}


def test_old_names_and_buffers_are_read(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    """The first files of BERT and GPT-2 on the hub: gamma and beta, no beginning, masks among the weights."""
    for name, strange in (("bert-bare", "embeddings.position_ids"), ("gpt2-bare", "h.0.attn.bias")):
        folder = copied(folder_of(name), tmp_path / name)
        tensors = load_file(folder / "model.safetensors")
        old = {
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for key, tensor in tensors.items()
        }
        save_file({**old, strange: torch.zeros(3)}, folder / "model.safetensors", metadata={"format": "pt"})
        new, before = read_pretrained(folder), read_pretrained(folder_of(name))
        assert all(torch.equal(tensor, new.weights[key]) for key, tensor in before.weights.items())


def test_what_is_left_out_is_said(folder_of: Callable[..., Path]) -> None:
    found = read_pretrained(folder_of("bert-pretraining"))
    assert found.notes == (
        "Left out, because no score of ours depends on it: cls.seq_relationship.bias, cls.seq_relationship.weight, "
        "pooler.dense.bias, pooler.dense.weight.",
    )
    assert found.model.head.kind == "masked"


def test_more_rows_than_the_tokenizer_has_ids(model_of: Any, folder_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = copied(folder_of("gpt2"), tmp_path / "padded")
    model = model_of("gpt2")
    model.resize_token_embeddings(310)
    model.save_pretrained(folder)
    run = gf.load(folder)
    assert (run.tokenizer.size, run.model.dims.vocabulary) == (300, 310)
    torch.testing.assert_close(run.model(ids()), scores_of(model, ids()), atol=1e-5, rtol=0)
    assert run.generate("the", max_new_tokens=40, temperature=5.0)[0].tokens == 40  # with ids that no token has among them


def test_an_imported_run_is_a_run(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    directory, _ = import_run(folder_of("llama"), tmp_path / "run")
    run = gf.load(tmp_path / "run")
    assert (run.status, run.summary()["step"]) == ("imported", 0)
    assert run.recipe.data.absent
    assert directory.read_environment()["imported"]["class"] == "LlamaForCausalLM"
    assert gf.check(tmp_path / "run").passed
    result = run.evaluate_texts(["the cat sat on the mat"])[0]
    assert result.metrics["loss"].value > 0
    (tmp_path / "text.txt").write_text("the cat sat on the mat and ran\n" * 5)
    assert run.evaluate(data=tmp_path / "text.txt").metrics["loss"].value > 0
    assert run.generate("the cat", max_new_tokens=5)[0].tokens == 5
    with refused(DataError, "no-data", "data.set=none"):
        run.evaluate("validation")


def test_an_imported_encoder(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    import_run(folder_of("bert"), tmp_path / "run")
    assert gf.check(tmp_path / "run").passed
    with refused(ConfigError, "not-causal", "model.causal=false"):
        gf.load(tmp_path / "run").generate("the cat")


def test_training_goes_on_from_it(folder_of: Callable[..., Path], tiny: dict[str, Any], tmp_path: Path) -> None:
    import_run(folder_of("llama"), tmp_path / "run")
    base = gf.load_recipe(tmp_path / "run" / "recipe.yaml")
    changes = {"data.path": tiny["data"]["path"], "init_from": str(tmp_path / "run"), "training.steps": 3}
    tuned = gf.train(base, set={**changes, "training.batch_size": 2, "training.device": "cpu"}, out=tmp_path / "tuned")
    assert tuned.status == "finished"
    before = gf.load(tmp_path / "run").checkpoint().model
    assert any(not torch.equal(tensor, before[name]) for name, tensor in tuned.checkpoint().model.items())


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_an_encoder_guesses_its_own_mask(
    name: str, folder_of: Callable[..., Path], tiny: dict[str, Any], tmp_path: Path
) -> None:
    """The mask is the folder's [MASK] or <mask>: no row is added, so it is evaluated and trained on with its own weights."""
    folder = tmp_path / "folder"
    shutil.copytree(folder_of(name), folder)
    if name == "roberta":
        file = folder / "tokenizer.json"
        file.write_text(file.read_text(encoding="utf-8").replace("[MASK]", "<mask>"), encoding="utf-8")
    import_run(folder, tmp_path / "run")
    run = gf.load(tmp_path / "run")
    assert run.tokenizer.mark_id("<mask>") == 4
    assert run.evaluate_texts("the cat sat on a mat, a hen sat on the mat")[0].metrics["loss"].value > 0
    changes = {"data.path": tiny["data"]["path"], "init_from": str(tmp_path / "run"), "training.steps": 1}
    base = gf.load_recipe(tmp_path / "run" / "recipe.yaml")
    tuned = gf.train(base, set={**changes, "training.batch_size": 2, "training.device": "cpu"}, out=tmp_path / "tuned")
    assert (tuned.tokenizer.size, tuned.tokenizer.marks) == (run.tokenizer.size, ())


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_it_stops_where_the_folder_says(file: str, folder_of: Callable[..., Path], tmp_path: Path) -> None:
    """At the ids of eos_token_id, whatever their tokens are called (<|eot_id|>); an export names the same ids."""
    folder = tmp_path / "folder"
    shutil.copytree(folder_of("llama"), folder)
    plain = gf.load(folder).generate("the cat", max_new_tokens=6, temperature=0.0)[0]
    end = plain.ids[3]
    settings = json.loads((folder / file).read_text(encoding="utf-8"))
    (folder / file).write_text(json.dumps({**settings, "eos_token_id": [299, end]}), encoding="utf-8")
    run = gf.load(folder)
    found = run.generate("the cat", max_new_tokens=6, temperature=0.0)[0]
    assert found.ids == plain.ids[: plain.ids.index(end)]
    run.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text(encoding="utf-8"))["eos_token_id"] == [299, end]
    (folder / file).write_text(json.dumps({**settings, "eos_token_id": "end"}), encoding="utf-8")
    with refused(DataError, "bad-setting", "eos_token_id='end'"):
        read_pretrained(folder)


def test_a_folder_is_opened_once_for_the_same_bytes(folder_of: Callable[..., Path]) -> None:
    assert gf.load(folder_of("gpt2")).folder == gf.load(folder_of("gpt2")).folder
    assert gf.load(folder_of("gpt2")).folder != gf.load(folder_of("llama")).folder


def test_a_shorter_context_where_positions_are_a_formula(folder_of: Callable[..., Path]) -> None:
    assert read_pretrained(folder_of("llama"), context=8).model.context == 8
    with refused(ConfigError, "context-of-table", "19"):
        read_pretrained(folder_of("gpt2"), context=8)


def test_a_used_folder_is_left_alone(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with refused(RunError, "folder-not-empty"):
        import_run(folder_of("gpt2"), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def copied(source: Path, target: Path) -> Path:
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_the_real_minilm(minilm: Path, transformers: Any, tmp_path: Path) -> None:
    """22.7 million numbers: the same vectors as transformers gives, and the same tensors when exported again."""
    assert sha256_of_file(minilm / "model.safetensors") == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    run = gf.load(minilm)
    assert sum(tensor.numel() for tensor in run.checkpoint().model.values()) == 22_713_216
    theirs = transformers.AutoModel.from_pretrained(minilm, local_files_only=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm, local_files_only=True)
    for text in ("The unbelievable Transformers don't lie.", "A naïve 日本 snowman. " * 30):
        row = tokenizer(text, padding=False, truncation=False)["input_ids"]
        assert run.tokenizer.encode_document(text) == row
        with torch.no_grad():
            expected = theirs(input_ids=torch.tensor([row])).last_hidden_state
            torch.testing.assert_close(run.model.features(torch.tensor([row])), expected, atol=1e-5, rtol=0)
    run.save_pretrained(tmp_path / "again")
    before, after = (load_file(folder / "model.safetensors") for folder in (minilm, tmp_path / "again"))
    before.pop("embeddings.position_ids", None)
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
