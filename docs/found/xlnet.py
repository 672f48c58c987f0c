"""XLNet: with attn_type="uni" several rows with an attention mask do not run. Needs torch and transformers only."""

import torch
from transformers import XLNetConfig, XLNetLMHeadModel

torch.manual_seed(0)
sizes = {"vocab_size": 50, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
model = XLNetLMHeadModel(XLNetConfig(**sizes, attn_type="uni")).eval()
for rows in (1, 2):
    try:
        with torch.no_grad():
            model(input_ids=torch.randint(3, 50, (rows, 6)), attention_mask=torch.ones(rows, 6))
        print(f"{rows} row(s) with an attention mask: runs")
    except RuntimeError as error:
        print(f"{rows} row(s) with an attention mask: {error}")
