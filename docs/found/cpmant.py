"""CPM-Ant: mapped to causal language modelling, and every plain token sees every other. Needs torch and transformers only."""

import torch
from transformers import CpmAntConfig, CpmAntForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 50, "hidden_size": 32, "num_attention_heads": 4, "dim_head": 8, "dim_ff": 48, "num_hidden_layers": 2}
model = CpmAntForCausalLM(CpmAntConfig(**sizes)).double().eval()

ids = torch.randint(3, 50, (1, 12))
changed = ids.clone()
changed[:, 6:] = (changed[:, 6:] - 3 + 1) % 47 + 3
with torch.no_grad():
    first, second = (model(input_ids=rows, use_cache=False).logits for rows in (ids, changed))
print(f"other tokens from position 6 on: the scores before change by {(first - second)[:, :6].abs().max():.1e}")
