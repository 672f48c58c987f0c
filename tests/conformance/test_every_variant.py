"""Every variant of every slot of a model through the one conformance suite."""

from __future__ import annotations

import pytest

from glassformer.checks.conformance import ConformanceCase, cases


@pytest.mark.parametrize("case", cases(), ids=str)
def test_conforms(case: ConformanceCase) -> None:
    assert case.run() is None  # it raises, with a sentence, where a requirement is not met
