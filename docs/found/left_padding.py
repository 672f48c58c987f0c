"""XLM (causal) and RecurrentGemma: what the attention mask hides on the left has a share in the scores.

Needs torch and transformers only. A row alone, and the same row with four hidden tokens before it and its own positions.
"""

import torch
from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM, XLMConfig, XLMWithLMHeadModel

torch.manual_seed(0)
gemma = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40}
MODELS = {
    "XLM": XLMWithLMHeadModel(XLMConfig(vocab_size=50, emb_dim=32, n_layers=2, n_heads=4, causal=True)),
    "RecurrentGemma": RecurrentGemmaForCausalLM(RecurrentGemmaConfig(**gemma, lru_width=32, attention_window_size=16)),
}
ids, hidden = torch.randint(6, 50, (1, 8)), torch.randint(6, 50, (1, 4))
mask, positions = torch.tensor([[0] * 4 + [1] * 8]), torch.tensor([[0] * 4 + list(range(8))])
for name, model in MODELS.items():
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        alone = model(input_ids=ids).logits
        padded = model(input_ids=torch.cat([hidden, ids], 1), attention_mask=mask, position_ids=positions).logits
    change = (padded[:, 4:] - alone).abs().max()
    print(f"{name}: four hidden tokens on the left change scores of up to {alone.abs().max():.1f} by {change:.1e}; should be 0")
