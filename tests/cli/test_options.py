"""Options that verbs share."""

from __future__ import annotations

from tests.refusals import refused

from glassformer.cli.options import changes_of
from glassformer.foundation.errors import ConfigError, UsageError


def test_assignments_in_order() -> None:
    assert changes_of(["model.width=8", "a.b=[1, 2]"]) == {"model.width": 8, "a.b": [1, 2]}
    assert changes_of(None) == {}


def test_twice_and_malformed() -> None:
    with refused(UsageError, "set-twice", "model.width"):
        changes_of(["model.width=8", "model.width=9"])
    with refused(ConfigError, "not-an-assignment"):
        changes_of(["model.width"])
