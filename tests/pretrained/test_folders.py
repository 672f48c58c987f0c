"""Bad folders: one sentence, nothing read by pickle, nothing written."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.refusals import refused

from glassformer.foundation.errors import DataError
from glassformer.pretrained.folders import is_folder, locate, read_tensors
from glassformer.pretrained.importing import import_run
from glassformer.runs.directory import RunDirectory


@pytest.fixture
def folder(folder_of: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("gpt2"), tmp_path / "model"))


def refusal(folder: Path | str, tmp_path: Path) -> str:
    """What the import says when it refuses; it leaves nothing behind."""
    before = set(tmp_path.rglob("*"))
    with pytest.raises(DataError) as refused:
        import_run(folder, tmp_path / "run")
    assert set(tmp_path.rglob("*")) == before
    return str(refused.value)


class Bomb:
    """Unpickled, it would raise."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('a pickle was read')",))


def test_no_weights(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert re.search(r"there are no weights: neither model\.safetensors nor", refusal(folder, tmp_path))


def test_a_pickle_alone_is_never_read(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    assert re.search(r"the weights are only in pytorch_model\.bin, a pickle", refusal(folder, tmp_path))


def test_a_pickle_by_another_name_is_never_read(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()) + bytes(100))
    assert re.search("is not a safetensors file despite its name", refusal(folder, tmp_path))
    torch.save({"weight": torch.zeros(2)}, folder / "model.safetensors")
    assert re.search("is not a safetensors file despite its name", refusal(folder, tmp_path))


@pytest.mark.parametrize("start", [b"", b"\x08", struct.pack("<Q", 1 << 60) + b"{}", struct.pack("<Q", 2) + b"[]"])
def test_headers_are_bounded(start: bytes, folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").write_bytes(start)
    assert re.search("is not a safetensors file despite its name", refusal(folder, tmp_path))


def test_a_file_cut_short(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    assert re.search("cannot be read as safetensors", refusal(folder, tmp_path))


def test_an_index_that_names_a_missing_shard(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder_of("llama", max_shard_size="20KB"), tmp_path / "model"))
    gone = sorted(folder.glob("*.safetensors"))[1]
    gone.unlink()
    assert re.search(f"names the file {gone.name} for .*, but it is not in the folder", refusal(folder, tmp_path))


def test_an_index_that_leads_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    for place in ("../elsewhere.safetensors", str(tmp_path / "elsewhere.safetensors"), "weights.bin"):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": place}}))
        assert re.search("which is not a safetensors file of this folder", refusal(folder, tmp_path))


@pytest.mark.parametrize("text", ["{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 3}}'])
def test_an_index_without_a_map(text: str, folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(text)
    assert re.search("has no weight_map from tensors to files", refusal(folder, tmp_path))


def test_an_index_that_names_a_tensor_its_shard_lacks(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"no.such": "a.safetensors"}}))
    assert re.search(r"the tensor no\.such is not in it", refusal(folder, tmp_path))


@pytest.mark.parametrize(
    ("text", "sentence"), [("[]", "not an object"), ("{", "is not valid JSON"), ("[" * 99999, "not valid")]
)
def test_settings_that_are_none(text: str, sentence: str, folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text(text)
    assert re.search(sentence, refusal(folder, tmp_path))


def test_code_in_the_folder_is_not_run(folder: Path, tmp_path: Path) -> None:
    (folder / "modeling_mine.py").write_text("raise SystemExit('code of the folder was run')")
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "auto_map": {"AutoModel": "modeling_mine.Mine"}}))
    import_run(folder, tmp_path / "run")
    assert "modeling_mine" not in sys.modules
    assert RunDirectory(tmp_path / "run").steps()


def test_no_tokenizer(folder: Path, tmp_path: Path) -> None:
    (folder / "tokenizer.json").unlink()
    assert re.search("there is no readable tokenizer", refusal(folder, tmp_path))


def test_what_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.search(r"there is no config\.json", refusal(tmp_path, tmp_path))
    assert re.search("is not a folder; give the folder of a Hugging Face model", refusal(tmp_path / "absent", tmp_path))
    assert not is_folder(tmp_path)


def test_a_name_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with refused(DataError, "not-fetched", "nobody/no-such-model", "folder", "HF_HUB_OFFLINE"):
        locate("nobody/no-such-model")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("LocalEntryNotFoundError", "the hub cannot be reached"), ("RepositoryNotFoundError", "the hub has no such name")],
)
def test_why_a_name_cannot_be_fetched(kind: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def snapshot_download(name: str, **options: object) -> str:
        raise type(kind, (Exception,), {})

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    with refused(DataError, "not-fetched", str(reason)):
        locate("some/encoder")


def test_no_pickle_is_asked_for_on_the_hub(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked = {}

    def snapshot_download(name: str, **options: object) -> str:
        asked.update(options, name=name)
        return str(folder)

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    assert locate("somebody/model") == folder
    assert asked["name"] == "somebody/model"
    assert not asked["local_files_only"]
    assert not [pattern for pattern in asked["allow_patterns"] if pattern.endswith((".py", ".bin", "*"))]


def test_every_tensor_by_name(folder: Path) -> None:
    assert read_tensors(folder)["transformer.wte.weight"].shape == (300, 24)
