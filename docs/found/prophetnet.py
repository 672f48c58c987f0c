"""ProphetNet: scores depend on later tokens, and training finds it. Needs torch and transformers only.

Without arguments: how much scores change. ``train``: tiny models of both classes on random tokens, where nothing can be
learned: the best honest loss is log(4) = 1.386. Then the same with the order of axes that the code reads.
"""

import inspect
import math
import sys
import textwrap

import torch
from torch.nn.functional import cross_entropy
from transformers import ProphetNetConfig, ProphetNetForCausalLM, ProphetNetForConditionalGeneration
from transformers.models.prophetnet import modeling_prophetnet as code

LENGTH, HEADS, STEPS = 4, 16, 300  # four heads a token: heads 4t to 4t+3 get the position logits of token t, at every place
SIZES = {"vocab_size": 5, "hidden_size": 64, "decoder_ffn_dim": 64, "encoder_ffn_dim": 64, "init_std": 0.2}
LAYERS = {
    "num_decoder_layers": 2,
    "num_encoder_layers": 1,
    "num_decoder_attention_heads": HEADS,
    "num_encoder_attention_heads": 4,
}
REST = {"max_position_embeddings": 16, "ngram": 1, "num_buckets": 8, "relative_max_distance": 16, "disable_ngram_loss": True}
PLAIN = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


def causal():
    torch.manual_seed(0)
    model = ProphetNetForCausalLM(
        ProphetNetConfig(**SIZES, **LAYERS, **REST, **PLAIN, is_decoder=True, add_cross_attention=False)
    )
    return model, lambda ids: model(input_ids=ids, use_cache=False).logits


def conditional():
    torch.manual_seed(0)
    model = ProphetNetForConditionalGeneration(ProphetNetConfig(**SIZES, **LAYERS, **REST, **PLAIN))
    return model, lambda ids: model(input_ids=torch.ones_like(ids[:, :2]), decoder_input_ids=ids, use_cache=False).logits


def change(build):
    """The largest change of the scores before position 2 when every token from there on is another one."""
    model, scores = build()
    model.double().eval()
    ids = torch.tensor([[1, 2, 3, 4]])
    other = torch.tensor([[1, 2, 4, 1]])
    with torch.no_grad():
        return float((scores(ids) - scores(other))[:, :2].abs().max())


def trained(build):
    """The loss on new random tokens after training on random tokens."""
    model, scores = build()
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for step in range(STEPS + 20):
        ids = torch.randint(1, 5, (64, LENGTH))
        loss = cross_entropy(scores(ids)[:, :-1].reshape(-1, 5), ids[:, 1:].reshape(-1))
        losses += [float(loss.detach())] if step >= STEPS else []
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return sum(losses) / len(losses)


def mend():
    """Position logits in the order that is read: batch, n-gram, head, time, bucket."""
    method = code.ProphetNetNgramSelfAttention.get_predict_relative_pos_embeddings
    source = textwrap.dedent(inspect.getsource(method))
    assert "permute(0, 2, 1, 4, 3)" in source
    made = {}
    exec(source.replace("permute(0, 2, 1, 4, 3)", "permute(0, 1, 4, 2, 3)"), vars(code), made)
    code.ProphetNetNgramSelfAttention.get_predict_relative_pos_embeddings = made[method.__name__]


for state in ("as released", "mended"):
    if state == "mended":
        mend()
    for build in (causal, conditional):
        print(f"{state}, {build.__name__} class: scores before the changed tokens change by {change(build):.1e}")
        if "train" in sys.argv:
            print(f"    trained on random tokens: loss {trained(build):.4f}; honest: {math.log(4):.4f} at best", flush=True)
