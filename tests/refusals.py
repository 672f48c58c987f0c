"""A refusal is compared by its kind and its reason code, so that sentences can be reworded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from glassformer.foundation.errors import GlassformerError


@contextmanager
def refused(kind: type[GlassformerError], reason: str, *parts: str) -> Iterator[pytest.ExceptionInfo[GlassformerError]]:
    """``kind`` is raised with this reason code; ``parts`` are values that its sentence must name (a key, a file, a number)."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.reason == reason, f"reason {caught.value.reason!r}: {caught.value}"
    missing = [part for part in parts if part not in str(caught.value)]
    assert not missing, f"{caught.value} does not name {missing}"
