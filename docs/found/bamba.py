"""Bamba: read on with a cache, every token is placed at position 0. Needs torch and transformers only."""

import torch
from transformers import BambaConfig, BambaForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
mamba = {"attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 8}
config = BambaConfig(**sizes, **mamba, num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.3)
model = BambaForCausalLM(config).double().eval()

ids = torch.randint(3, 50, (1, 12))
with torch.no_grad():
    whole = model(input_ids=ids, use_cache=False).logits
    for given in (False, True):  # without position ids, and with the right ones
        cache, steps = None, []
        for at in range(12):
            place = {"position_ids": torch.tensor([[at]])} if given else {}
            output = model(input_ids=ids[:, at : at + 1], past_key_values=cache, use_cache=True, **place)
            cache = output.past_key_values
            steps.append(output.logits)
        difference = (torch.cat(steps, 1) - whole).abs().max()
        print(f"token by token, position_ids {'given' if given else 'left out'}: scores change by {difference:.1e}")
