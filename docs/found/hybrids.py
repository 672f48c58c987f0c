"""Jamba, Zamba, FalconMamba: several tokens at once, read on with a cache, start from an empty state.

Needs torch and transformers only. Biases and weights are drawn larger than a fresh model's, as training makes them.
"""

import torch
from transformers import FalconMambaConfig, FalconMambaForCausalLM, JambaConfig, JambaForCausalLM, ZambaConfig, ZambaForCausalLM

torch.manual_seed(0)
SIZES = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2}
LAYERS = ["linear_attention", "hybrid"]
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 40}
SCAN = {"mamba_d_state": 8, "mamba_dt_rank": 2, "use_mamba_kernels": False}
JAMBA = {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 1, "num_experts_per_tok": 1}
MODELS = {
    "Jamba": ("past_key_values", JambaForCausalLM, JambaConfig(**SIZES, **HEADS, **SCAN, **JAMBA)),
    "Zamba": (
        "past_key_values",
        ZambaForCausalLM,
        ZambaConfig(**SIZES, **HEADS, **SCAN, attention_head_dim=16, layers_block_type=LAYERS, tie_word_embeddings=False),
    ),
    "FalconMamba": ("cache_params", FalconMambaForCausalLM, FalconMambaConfig(**SIZES, state_size=8)),
}
ids = torch.randint(3, 50, (1, 12))
for name, (cached, build, config) in MODELS.items():
    model = build(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        whole = model(input_ids=ids, use_cache=False).logits
        for pieces in ([6] + [1] * 6, [6, 6]):
            cache, at, read = None, 0, []
            for size in pieces:
                given = {} if cache is None else {cached: cache}
                output = model(input_ids=ids[:, at : at + size], use_cache=True, **given)
                cache, at = output[cached], at + size
                read.append(output.logits)
            change = (torch.cat(read, 1) - whole).abs().max()
            print(f"{name}, in pieces of {pieces}: scores of up to {whole.abs().max():.1f} change by {change:.1e}")
