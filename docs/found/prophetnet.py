"""ProphetNet: scores depend on later tokens. Needs torch and transformers only."""

import torch
from transformers import ProphetNetConfig, ProphetNetForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 12, "hidden_size": 64, "num_decoder_layers": 2, "num_decoder_attention_heads": 8, "decoder_ffn_dim": 64}
rest = {"max_position_embeddings": 40, "ngram": 1, "num_buckets": 8, "relative_max_distance": 16, "disable_ngram_loss": True}
config = ProphetNetConfig(**sizes, **rest, is_decoder=True, add_cross_attention=False, dropout=0.0, attention_dropout=0.0)
model = ProphetNetForCausalLM(config).double().eval()

ids = torch.randint(4, 12, (1, 8))
changed = ids.clone()
changed[:, 3:] = (changed[:, 3:] - 4 + 1) % 8 + 4  # every token from position 3 on is another one
with torch.no_grad():
    difference = (model(input_ids=ids).logits - model(input_ids=changed).logits).abs().amax(-1)[0]
print(f"scores before position 3 change by {difference[:3].max():.1e}; an honest model: 0")
