"""DeepSeek-V4: keys pooled from padding are seen, the mask is not asked. Needs torch and transformers only."""

import torch
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 8}
experts = {"moe_intermediate_size": 24, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1}
kinds = list(dict.fromkeys(DeepseekV4Config().layer_types))
sizes["num_hidden_layers"] = len(kinds)
config = DeepseekV4Config(
    **sizes,
    **experts,
    layer_types=kinds,
    qk_rope_head_dim=4,
    q_lora_rank=16,
    o_lora_rank=16,
    index_n_heads=32,
    index_head_dim=8,
    index_topk=16,
    sliding_window=8,
    max_position_embeddings=64,
)
model = DeepseekV4ForCausalLM(config).eval()

ids = torch.randint(3, 50, (1, 16))
mask = torch.tensor([[0] * 8 + [1] * 8])
places = (mask.cumsum(1) - 1).clamp(min=0)
other = torch.where(mask == 0, (ids + 1) % 50, ids)
with torch.no_grad():
    first, second = (
        model(input_ids=rows, attention_mask=mask, position_ids=places, use_cache=False).logits for rows in (ids, other)
    )
print(
    f"other tokens where the mask is 0: the scores of the rest change by {(first - second)[:, 8:].abs().max():.1e}; should be 0"
)
