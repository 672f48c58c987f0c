"""The child does the named program's job and prints its rate; when it cannot, its last word is told."""

from __future__ import annotations

import pytest
import torch

from glassformer.benchmark.first_job import first_job_rate
from glassformer.benchmark.generators import NANOGPT, OURS, Job
from glassformer.benchmark.peers import Sizes
from glassformer.foundation.errors import UsageError
from glassformer.foundation.runtime import Runtime

SIZES = Sizes(width=12, layers=1, heads=3, context=16, vocabulary=7)
RUNTIME = Runtime(device=torch.device("cpu"), precision="float32", threads=1)


def test_a_new_process_does_the_job():
    assert first_job_rate(OURS, Job(SIZES, 2, 5, 6), RUNTIME) > 0


def test_what_stopped_the_process_is_told(nanogpt):
    (nanogpt / "model.py").write_text("raise RuntimeError('no model today')", encoding="utf-8")
    with pytest.raises(UsageError, match=r"nanoGPT could not do its first job .* no model today"):
        first_job_rate(NANOGPT, Job(SIZES, 2, 5, 6, nanogpt), RUNTIME)
