"""The fixture ``prepared`` of the objectives."""

from __future__ import annotations

from tests.objectives.conftest import prepared

__all__ = ["prepared"]
