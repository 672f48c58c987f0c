# docs/snippets/parity.py
import numpy as np
import torch
import torch.nn.functional as F

from glassformer.data.batches import WindowBatches
from glassformer.evaluation.results import Baseline, Outcomes, Units
from glassformer.foundation.metrics import ACCURACY
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig


def windows(tokens, context):
    """Rows of the text, and whether the sum of each one's ids is odd."""
    ids = torch.from_numpy(np.asarray(tokens[: len(tokens) // context * context]).astype(np.int64)).view(-1, context)
    return ids, ids.sum(1) % 2


def outcomes(right):
    return Outcomes.of_units({"accuracy": Units(np.asarray(right, float), np.ones(len(right)))}, unit="window")


class AlwaysOdd(Baseline):
    def evaluate(self, items, tools):
        return outcomes(windows(items.tokens, tools.context)[1].numpy() == 1)


@OBJECTIVES.variant("parity")
class ParityConfig(ObjectiveConfig):
    """Is the sum of the ids of a row even or odd? The last position answers."""

    metrics = (ACCURACY,)
    baselines = {"always odd": AlwaysOdd}  # noqa: RUF012

    def outputs(self, data):
        return 2

    def batches(self, data, *, context, batch_size, seed):
        return WindowBatches(data.part("text").split("train").tokens, context=context, batch_size=batch_size, seed=seed)

    def count(self, batch):
        return torch.tensor(batch.rows, device=batch["ids"].device)

    def loss(self, network, batch, *, dropout_seed, smoothing):
        scores = network.head(network.features(batch["ids"], dropout_seed=dropout_seed)[:, -1:])[:, 0]
        return F.cross_entropy(scores.float(), batch["ids"].sum(1) % 2, reduction="sum", label_smoothing=smoothing)

    def evaluate(self, network, items, tools):
        ids, odd = windows(items.tokens, tools.context)
        with torch.no_grad():
            scores = torch.cat([network(rows)[:, -1] for rows in ids.to(network.embedding.weight.device).split(64)])
        return outcomes((scores.argmax(-1).cpu() == odd).numpy())

    def fit_baselines(self, data):
        return {"always odd": AlwaysOdd()}

    def show(self, batch, tokenizer):
        return [f"{tokenizer.decode(row.tolist())!r}: {'odd' if row.sum() % 2 else 'even'}" for row in batch["ids"]]
