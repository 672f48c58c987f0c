"""NemotronH: a row read at once has its time steps held above ``time_step_min``, one token at a time not.

Needs torch and transformers only. The time step of every head is drawn around the limit.
"""

import torch
from transformers import NemotronHConfig, NemotronHForCausalLM

torch.manual_seed(0)
sizes = {"vocab_size": 50, "hidden_size": 32, "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 1}
more = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 40, "chunk_size": 8}
config = NemotronHConfig(
    **sizes, **more, layers_block_type=["linear_attention", "full_attention", "mlp"], use_mamba_kernels=False
)
model = NemotronHForCausalLM(config).double().eval()
ids = torch.randint(3, 50, (1, 12))
for limit in (config.time_step_min, 0.0):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))) * 0.5)
            if name.endswith("dt_bias"):
                parameter.copy_(torch.full_like(parameter, -9.0))  # softplus(-9) = 0.0001
        for module in model.modules():
            if hasattr(module, "time_step_limit"):
                module.time_step_limit = (limit, float("inf"))
        whole = model(input_ids=ids, use_cache=False).logits
        cache, read = None, []
        for at in range(12):
            given = {} if cache is None else {"past_key_values": cache}
            output = model(input_ids=ids[:, at : at + 1], use_cache=True, **given)
            cache = output.past_key_values
            read.append(output.logits)
    print(f"time steps held above {limit}: token by token the scores change by {(torch.cat(read, 1) - whole).abs().max():.1e}")
