"""Mamba: several tokens at once, read on with a cache, start from an empty state. Needs torch and transformers only."""

import torch
from transformers import MambaConfig, MambaForCausalLM

torch.manual_seed(0)
config = MambaConfig(vocab_size=50, hidden_size=32, state_size=8, num_hidden_layers=2, initializer_range=0.3)
model = MambaForCausalLM(config).double().eval()

ids = torch.randint(3, 50, (1, 12))
with torch.no_grad():
    whole = model(input_ids=ids, use_cache=False).logits
    for pieces in ([6] + [1] * 6, [6, 6]):
        cache, at, read = None, 0, []
        for size in pieces:
            output = model(input_ids=ids[:, at : at + size], cache_params=cache, use_cache=True)
            cache, at = output.cache_params, at + size
            read.append(output.logits)
        print(f"in pieces of {pieces}: scores change by {(torch.cat(read, 1) - whole).abs().max():.1e}")
