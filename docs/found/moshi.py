"""Moshi: its cache keeps ``sliding_window`` tokens, its mask knows no window. Needs torch and transformers only."""

import torch
from transformers import MoshiConfig, MoshiForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 40}
model = MoshiForCausalLM(MoshiConfig(**sizes, sliding_window=8, max_position_embeddings=64)).double().eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))

ids = torch.randint(3, 50, (1, 24))
other = ids.clone()
other[0, 0] = (ids[0, 0] + 1) % 50
with torch.no_grad():
    whole = model(input_ids=ids, use_cache=False).logits
    far = (model(input_ids=other, use_cache=False).logits - whole)[0, 23].abs().max()
    print(f"read at once with a window of 8, the first of 24 tokens changes the scores of the last by {far:.1e}")
    for length in (8, 24):
        cache, read = None, []
        for at in range(length):
            output = model(input_ids=ids[:, at : at + 1], past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            read.append(output.logits)
        change = (torch.cat(read, 1) - whole[:, :length]).abs().max()
        print(f"{length} tokens one by one: the scores change by {change:.1e}")
