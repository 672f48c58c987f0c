"""FlexAttention, not compiled, computes what our reference does, for a window, documents and a soft-cap."""

from __future__ import annotations

from types import ModuleType

import pytest


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_the_two_agree(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    bench.check("cpu")
    assert len(capsys.readouterr().out.splitlines()) == len(bench.CASES)
