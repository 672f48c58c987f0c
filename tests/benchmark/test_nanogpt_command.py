"""nanoGPT's train.py as a whole command, with a stand-in for its folder."""

from __future__ import annotations

import pytest

from glassformer.benchmark import start
from glassformer.benchmark.nanogpt_command import nanogpt_command
from glassformer.benchmark.start import seconds_of
from glassformer.foundation.errors import UsageError


def test_the_command_of_nanogpt_runs(nanogpt, tmp_path) -> None:
    command, folder = nanogpt_command(nanogpt, tmp_path / "scratch", start.TINY, 3)
    assert seconds_of(command, folder)[0] >= 0.03
    with pytest.raises(UsageError, match=r"has no train\.py"):
        nanogpt_command(tmp_path, tmp_path / "scratch", start.TINY, 3)
