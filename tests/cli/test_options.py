"""Options that verbs share."""

from __future__ import annotations

import pytest

from glassformer.cli.options import changes_of
from glassformer.foundation.errors import ConfigError, UsageError


def test_assignments_in_order() -> None:
    assert changes_of(["model.width=8", "a.b=[1, 2]"]) == {"model.width": 8, "a.b": [1, 2]}
    assert changes_of(None) == {}


def test_twice_and_malformed() -> None:
    with pytest.raises(UsageError, match=r"--set model\.width is given twice"):
        changes_of(["model.width=8", "model.width=9"])
    with pytest.raises(ConfigError, match="is not of the form key=value"):
        changes_of(["model.width"])
