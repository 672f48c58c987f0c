"""T5 and BART: same scores as transformers, same greedy text, the same tensors again, and exports that transformers opens."""

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
from glassformer.foundation.errors import DataError
from glassformer.pretrained.importing import import_run

NAMES = ["t5", "t5-gated", "bart", "bart-scaled"]
TEXTS = ["the old cat sat", "a hen, a mat: the cat's red hat!", "then"]


def ids(rows: int, length: int, seed: int) -> torch.Tensor:
    return torch.randint(3, 300, (rows, length), generator=torch.Generator().manual_seed(seed))


def scores_of(model: Any, **more: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**more).logits


@pytest.mark.parametrize("name", NAMES)
def test_the_scores_are_the_same_with_padding_of_the_source(name: str, model_of: Any, folder_of: Callable[..., Path]) -> None:
    source_BS, ids_BT = ids(3, 17, 1), ids(3, 13, 2)
    padding_BS = torch.zeros(3, 17, dtype=torch.bool)
    padding_BS[1, 11:] = True
    theirs = scores_of(model_of(name), input_ids=source_BS, attention_mask=(~padding_BS).long(), decoder_input_ids=ids_BT)
    with torch.no_grad():
        ours = gf.load(folder_of(name)).model(source_BS, ids_BT, padding_BS)
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)  # 1.12e-5 with torch 2.10


@pytest.mark.parametrize("name", NAMES)
def test_the_greedy_text_is_the_same(name: str, model_of: Any, folder_of: Callable[..., Path]) -> None:
    run, theirs = gf.load(folder_of(name)), model_of(name)
    for text, ours in zip(TEXTS, run.translate(TEXTS)):
        source = [*run.tokenizer.encode(text), 1]
        room = min(19, 3 * len(source) + 20)
        made = theirs.generate(
            torch.tensor([source]), max_new_tokens=room, do_sample=False, num_beams=1, suppress_tokens=[0, 2], use_cache=False
        )[0].tolist()
        assert ours.text == run.tokenizer.decode([token for token in made[1:] if token != 1]).strip()


@pytest.mark.parametrize("name", NAMES)
def test_exported_again_it_is_the_same_folder_for_transformers(
    name: str, model_of: Any, transformers: Any, folder_of: Callable[..., Path], tmp_path: Path
) -> None:
    exported = gf.load(folder_of(name)).save_pretrained(tmp_path / "again")
    before, after = (load_file(folder / "model.safetensors") for folder in (folder_of(name), exported.folder))
    before.pop("final_logits_bias", None)  # zeros, which transformers makes by itself
    assert before.keys() == after.keys()
    assert all(torch.equal(tensor, after[key]) for key, tensor in before.items())
    again, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(exported.folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    sequences = {"input_ids": ids(2, 9, 3), "decoder_input_ids": ids(2, 7, 4)}
    torch.testing.assert_close(scores_of(again.eval(), **sequences), scores_of(model_of(name), **sequences), atol=1e-5, rtol=0)


def test_a_head_of_its_own(folder_of: Callable[..., Path], transformers: Any, tmp_path: Path) -> None:
    """T5 1.1 as it was published: the matrix of the scores is not the table of tokens, and nothing is scaled."""
    folder = shutil.copytree(folder_of("t5-gated"), tmp_path / "folder")
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "lm_head.weight": torch.randn(300, 24)}, folder / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    del settings["scale_decoder_outputs"]
    (folder / "config.json").write_text(json.dumps({**settings, "tie_word_embeddings": False}))
    run = gf.load(folder)
    assert run.recipe.model.head.kind == "untied"  # type: ignore[attr-defined]
    sequences = {"input_ids": ids(2, 9, 3), "decoder_input_ids": ids(2, 7, 4)}
    exported = run.save_pretrained(tmp_path / "again").folder
    with torch.no_grad():
        ours = run.model(sequences["input_ids"], sequences["decoder_input_ids"])
    for place in (folder, exported):
        theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(place).eval()
        torch.testing.assert_close(ours, scores_of(theirs, **sequences), atol=1e-5, rtol=0)


def test_a_bias_of_the_scores_has_no_place(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    folder = shutil.copytree(folder_of("bart"), tmp_path / "folder")
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "final_logits_bias": torch.ones(1, 300)}, folder / "model.safetensors")
    with refused(DataError, "tensor-not-zero", "final_logits_bias"):
        import_run(folder, tmp_path / "run")


def test_what_stands_before_a_text_is_read_from_the_tokenizer(folder_of: Callable[..., Path], tmp_path: Path) -> None:
    """BART's <s> before every text: of sources, and of targets, where it is not part of the text."""
    folder = shutil.copytree(folder_of("bart"), tmp_path / "folder")
    document = json.loads((folder / "tokenizer.json").read_text())
    document["post_processor"] = {
        "type": "BertProcessing",
        "sep": [document_token(document, 1), 1],
        "cls": [document_token(document, 7), 7],
    }
    (folder / "tokenizer.json").write_text(json.dumps(document))
    import_run(folder, tmp_path / "run")
    tokenizer = gf.load(tmp_path / "run").tokenizer
    assert tokenizer.prefix == (7,)
    assert [tokenizer.mark_id(mark) for mark in ("<start>", "<end>", "<pad>")] == [2, 1, 0]
    from glassformer.data.pairs.pair_batches import written_text

    body = tokenizer.encode("the cat")
    assert written_text(tokenizer, [7, *body]) == written_text(tokenizer, body) == "the cat"


@pytest.mark.parametrize("name", ["like-t5", "like-bart"])
def test_a_run_of_ours_writes_the_same_text_there(name: str, transformers: Any, tmp_path: Path) -> None:
    """From a text to a text by transformers alone: its tokenizer adds the end of the source, its settings the rest."""
    small = {"training.steps": 40, "data.set.pairs": 300, "data.set.held_out": 20, "evaluation.every": 40}
    run = gf.train(name, set=small, out=tmp_path / "run")
    exported = run.save_pretrained(tmp_path / "there").folder
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(exported).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    texts = list(run.data.split("validation").sources[:5])
    made = model.generate(**tokenizer(texts, padding=True, return_tensors="pt"), do_sample=False, max_new_tokens=32)
    assert [one.text for one in run.translate(texts)] == [
        text.strip() for text in tokenizer.batch_decode(made, skip_special_tokens=True)
    ]


def document_token(document: Any, token_id: int) -> str:
    return next(token for token, number in document["model"]["vocab"].items() if number == token_id)
