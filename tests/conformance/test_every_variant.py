"""Every variant of every slot of a model through the one conformance suite.

The whole check of the laws is quick for a variant's first example as it is meant, and for what declares to break a law; for its
further examples and in an encoder it is slow, and their quick representative is its quick form.
"""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.checks.conformance import ConformanceCase, cases, check_together
from glassformer.foundation.registry import Slot


def takes_long(case: ConformanceCase) -> bool:
    variant = case.variant
    config = Slot.every[variant.slot].get(variant.kind)
    first = variant.settings == config.examples[0] and (variant.causal or getattr(config, "pools", False))
    return case.name == "laws" and not first and not variant.part.breaks


def every() -> list[Any]:
    found = cases()
    known = {str(case) for case in found}
    quick = [ConformanceCase(case.variant, "together", check_together) for case in found if takes_long(case)]
    marked = [pytest.param(case, marks=pytest.mark.slow) if takes_long(case) else case for case in found]
    return [*marked, *(case for case in quick if str(case) not in known)]


@pytest.mark.parametrize("case", every(), ids=str)
def test_conforms(case: ConformanceCase) -> None:
    assert case.run() is None  # it raises, with a sentence, where a requirement is not met
