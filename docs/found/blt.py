"""BLT: what the attention mask hides is seen all the same. Needs torch and transformers only.

Padding on the left. Bytes are pooled into patches, and each byte's vector is made of the bytes before it too; neither asks the
mask, and the transformer over patches is called without one.
"""

import torch
from transformers import BltConfig, BltForCausalLM

torch.manual_seed(0)
part = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 50}
part["max_position_embeddings"] = 64
local = {**part, "hidden_size_global": 32}
config = BltConfig(
    vocab_size=50,
    patching_mode="static",  # patches of fixed length: no patcher, which reads no mask either
    max_patch_length=2,
    encoder_hash_byte_group_size=[2],
    encoder_hash_byte_group_vocab=64,
    encoder_config=local,
    decoder_config=local,
    global_config=part,
    patcher_config=part,
)
model = BltForCausalLM(config).double().eval()

ids = torch.randint(3, 50, (1, 12))
mask = torch.tensor([[0] * 4 + [1] * 8])
other = torch.where(mask == 0, (ids + 1) % 50, ids)
with torch.no_grad():
    first, second = (model(input_ids=rows, attention_mask=mask, use_cache=False).logits for rows in (ids, other))
change = (first - second).abs().amax(-1)[0]
print(f"other bytes where the mask is 0: the scores of the last byte change by {change[-1]:.1e}; should be 0")
