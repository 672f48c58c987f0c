"""RWKV: takes an attention mask and does not read it. Needs torch and transformers only."""

import torch
from transformers import RwkvConfig, RwkvForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 50, "hidden_size": 32, "attention_hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
model = RwkvForCausalLM(RwkvConfig(**sizes, context_length=64)).double().eval()
with torch.no_grad():
    for parameter in model.parameters():  # at the start many are zero
        parameter.add_(0.3 * torch.randn_like(parameter))

ids = torch.randint(3, 50, (1, 12))
mask = torch.tensor([[0] * 4 + [1] * 8])
other = torch.where(mask == 0, (ids + 1) % 50, ids)
with torch.no_grad():
    first, second = (model(input_ids=rows, attention_mask=mask, use_cache=False).logits for rows in (ids, other))
print(
    f"other tokens where the mask is 0: the scores of the rest change by {(first - second)[:, 4:].abs().max():.1e}; should be 0"
)
