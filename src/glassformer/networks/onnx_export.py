"""A classifier -> a folder for onnxruntime: the graph, its tokenizer, its labels. Any pooling, any way of tuning, our own too.

What was written is opened by onnxruntime and compared with the network before the folder gets its name: the same tokens, and
the same scores for rows of several lengths. Needs ``glassformer[onnx]``.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, final

import numpy as np
import tokenizers
import torch
from torch import Tensor, nn

from glassformer.data.labels.label_batches import encode_texts
from glassformer.data.labels.texts_to_classify import unlabelled_texts
from glassformer.data.tokenizers.base import Tokenizer
from glassformer.foundation.errors import ConfigError, MissingDependency, RunError
from glassformer.foundation.files import whole_folder, write_json
from glassformer.model.network import Network
from glassformer.pretrained.adapter_export import Answers
from glassformer.pretrained.exporting import Exported
from glassformer.pretrained.tokenizer_conversion import TOKENIZER, document_of

GRAPH, LABELS = "model.onnx", "labels.json"
OPSET = 18
SAMPLES = ("a text", "the parcel arrived late, and the box was wet", "it works very well and I would buy it again " * 3)
CLOSE = 1e-4
"""The largest difference of a score that is taken for rounding."""


@final
class _Scores(nn.Module):
    """The network with the inputs that transformers' exports have."""

    def __init__(self, network: Network, scale: tuple[float, float] | None = None) -> None:
        super().__init__()
        self.network, (self.mean, self.deviation) = network, scale or (0.0, 1.0)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        more = {} if token_type_ids is None else {"segments_BT": token_type_ids}
        mask_BS = attention_mask == 0
        scores_BC = self.network.logits(self.network.features(input_ids, key_padding_mask_BS=mask_BS, **more), mask_BS)
        return scores_BC if self.deviation == 1.0 and not self.mean else scores_BC * self.deviation + self.mean


@torch.no_grad()
def export_onnx(
    network: Network,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    answers: Answers,
    temperature: float | None,
    pairs: bool,
    thresholds: Sequence[float] = (),
) -> Exported:
    """Writes the folder, whole or not at all. ``thresholds``: of several labels, the score from which on each is given."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingDependency("--onnx needs onnx, onnxscript and onnxruntime; install glassformer[onnx].") from error
    if not answers.names or not network.pools:
        raise ConfigError(
            "--onnx exports classifiers (objective: labels, multilabel or regression); this run has no labels.",
            reason="not-a-classifier",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not empty; choose another folder for the export.", reason="folder-not-empty")
    network = network.cpu().eval()
    typed = pairs and network.takes_segments
    with whole_folder(folder) as draft:
        draft.mkdir(parents=True, exist_ok=True)
        scores = _Scores(network, answers.scale)
        _write_graph(scores, draft / GRAPH, typed=typed)
        write_json(draft / TOKENIZER, document_of(tokenizer))
        facts = {"labels": list(answers.names), "context": network.dims.context, "temperature": temperature, "pairs": pairs}
        several = {"thresholds": list(thresholds)} if answers.several else {}
        write_json(draft / LABELS, {"schema": 1, **facts, "problem_type": answers.problem_type, **several})
        session = onnxruntime.InferenceSession(str(draft / GRAPH), providers=["CPUExecutionProvider"])
        _compare(scores, tokenizer, session, draft, typed=typed)
    return Exported(folder, "ONNX", ("Scores were compared with the network's by onnxruntime.",))


def _write_graph(scores: _Scores, file: Path, *, typed: bool) -> None:
    network = scores.network
    ids_BT = torch.arange(3 * 11).reshape(3, 11) % network.dims.vocabulary  # no two sizes equal, none of them 1
    inputs = {"input_ids": ids_BT, "attention_mask": torch.ones_like(ids_BT)}
    inputs |= {"token_type_ids": torch.zeros_like(ids_BT)} if typed else {}
    rows, length = torch.export.Dim("batch", min=1, max=1 << 16), torch.export.Dim("length", min=2, max=network.dims.context)
    log = logging.getLogger("torch.onnx")
    before = log.level
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # the exporter reports its progress
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        torch.onnx.export(
            scores,
            tuple(inputs.values()),
            str(file),
            input_names=list(inputs),
            output_names=["logits"],
            dynamic_shapes={name: {0: rows, 1: length} for name in inputs},
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        log.setLevel(before)


def _compare(scores: _Scores, tokenizer: Tokenizer, session: Any, folder: Path, *, typed: bool) -> None:
    """Raises unless the folder's tokenizer and graph give what the run's give."""
    network = scores.network
    library = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
    library.no_truncation()
    library.no_padding()
    encoded = encode_texts(tokenizer, unlabelled_texts("sample", SAMPLES, ()), network.dims.context)
    for text, ids in zip(SAMPLES, encoded.ids):
        theirs = library.encode(text).ids
        if len(theirs) <= network.dims.context and theirs != ids.tolist():
            raise ConfigError(
                f"the tokenizer ({tokenizer.kind}) has no form in which tokenizer.json gives the same ids ({theirs[:9]} "
                f"instead of {ids[:9].tolist()} for {text[:20]!r}); train with another tokenizer to export it.",
                reason="tokenizer-differs",
            )
    generator = torch.Generator().manual_seed(0)
    for rows, length in ((1, 2), (5, network.dims.context), (2, max(2, network.dims.context // 3))):
        ids_BT = torch.randint(network.dims.vocabulary, (rows, length), generator=generator)
        seen_BT = (torch.arange(length) < torch.randint(1, length + 1, (rows, 1), generator=generator)).long()
        inputs = {"input_ids": ids_BT, "attention_mask": seen_BT}
        inputs |= {"token_type_ids": (ids_BT % 2) * seen_BT} if typed else {}
        ours = scores(**inputs).numpy()
        theirs = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})[0]
        if not np.allclose(ours, theirs, rtol=CLOSE, atol=CLOSE * scores.deviation):
            raise ConfigError(
                f"onnxruntime gives other scores than the network (they differ by {np.abs(ours - theirs).max():.2g}); use "
                "another version of onnxruntime, or serve the run itself (serve --api).",
                reason="onnx-differs",
            )
