"""Models of transformers with small random weights: decoders pass, an encoder and spoilt decoders are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

from glassformer.checks.check import check_model  # noqa: E402
from glassformer.checks.huggingface_subject import huggingface_subject, is_huggingface, load_folder  # noqa: E402
from glassformer.foundation.errors import DataError  # noqa: E402

COMMON = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "vocab_size": 50,
    "max_position_embeddings": 21,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT2 = {
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 3,
    "n_positions": 21,
    "vocab_size": 50,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def gpt2(cls: Any = None) -> Any:
    torch.manual_seed(0)
    return (cls or transformers.GPT2LMHeadModel)(transformers.GPT2Config(**GPT2))


def decoders() -> dict[str, Any]:
    torch.manual_seed(0)
    grouped = {**COMMON, "num_key_value_heads": 3}
    return {
        "gpt2": gpt2(),
        "llama": transformers.LlamaForCausalLM(transformers.LlamaConfig(**grouped)),
        "mistral": transformers.MistralForCausalLM(transformers.MistralConfig(**grouped, sliding_window=4)),
        "gpt_neox": transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**COMMON)),
    }


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", ["gpt2", "llama", pytest.param("mistral", marks=SLOW), pytest.param("gpt_neox", marks=SLOW)])
def test_decoders_pass_every_law_in_pure_float64(name: str) -> None:
    report = check_model(decoders()[name])
    assert report.passed, str(report)
    assert report.notes == ()
    assert set(report.tested) == {"causality", "batch", "state", "padding", "cache"}
    assert "up to 21" in report.tested["causality"]
    assert report.tested["padding"] == "hidden: right, left"


def test_bert_is_not_causal_and_keeps_every_other_law() -> None:
    torch.manual_seed(0)
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**COMMON))
    finding = check_model(bert).findings[0]
    assert finding.law == "causality"
    assert finding.where.startswith("bert.encoder.layer.0.attention")
    report = check_model(bert, causal=False)
    assert report.passed, str(report)
    assert "padding" in report.tested


def test_decoder_whose_mask_was_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = decoders()["llama"]
    for layer in model.model.layers:
        layer.self_attn.is_causal = False
    monkeypatch.setattr("transformers.models.llama.modeling_llama.create_causal_mask", lambda *args, **kwargs: None)
    finding = check_model(model).findings[0]
    assert (finding.law, finding.where) == ("causality", "model.layers.0.self_attn")


def test_positions_counted_from_the_padded_left() -> None:
    class CountsPadding(transformers.GPT2LMHeadModel):  # type: ignore[misc,name-defined]
        def forward(self, input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None, **others: Any) -> Any:
            return super().forward(input_ids=input_ids, attention_mask=attention_mask, **others)

    report = check_model(gpt2(CountsPadding))
    assert [finding.law for finding in report.findings] == ["padding"]
    finding = report.findings[0]
    assert (finding.example["side"], finding.example["found_by"]) == ("left", "no padding")
    assert finding.where == "transformer"  # which makes the position ids


def test_cache_that_loses_a_token() -> None:
    class Forgetful(transformers.GPT2LMHeadModel):  # type: ignore[misc,name-defined]
        def forward(self, input_ids: Any = None, past_key_values: Any = None, **others: Any) -> Any:
            if past_key_values is not None and past_key_values.get_seq_length() > 2:
                past_key_values.crop(-1)
            return super().forward(input_ids=input_ids, past_key_values=past_key_values, **others)

    report = check_model(gpt2(Forgetful))
    assert [finding.law for finding in report.findings] == ["cache"]
    assert report.findings[0].to_position == 3


def test_folder_is_loaded_from_safetensors_alone(tmp_path: Path) -> None:
    gpt2().save_pretrained(tmp_path / "good")
    loaded = load_folder(tmp_path / "good")
    assert is_huggingface(loaded)
    torch.testing.assert_close(loaded.state_dict(), gpt2().state_dict(), rtol=0, atol=0)
    assert check_model(tmp_path / "good").passed
    (tmp_path / "good" / "model.safetensors").rename(tmp_path / "good" / "moved")
    torch.save(gpt2().state_dict(), tmp_path / "good" / "pytorch_model.bin")
    with pytest.raises(DataError, match="the model cannot be loaded"):
        load_folder(tmp_path / "good")
    with pytest.raises(DataError, match=r"there is no config\.json"):
        load_folder(tmp_path)


@pytest.mark.slow
def test_context_of_a_model_that_states_none_is_found_by_trying() -> None:
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=50, hidden_size=12, state_size=5, num_hidden_layers=2, pad_token_id=0)
    mamba = transformers.MambaForCausalLM(config)
    report = check_model(mamba, context=9)
    assert report.judged["causality"] == report.judged["batch"] == "passed"
    assert "up to 9" in report.tested["causality"]
    assert huggingface_subject(mamba).context == 256
