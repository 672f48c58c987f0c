"""Which of the processes of a run this one is, as torchrun tells it in the environment. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from glassformer.foundation.errors import UsageError

NEEDED: Final = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets for every process it starts."""


@dataclass(frozen=True)
class Place:
    """``rank`` of ``world`` processes; ``local_rank`` of ``local_world`` on this machine, which is one of ``nodes``."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1

    @property
    def nodes(self) -> int:
        return max(1, self.world // self.local_world)


def place_of(environment: Mapping[str, str] | None = None) -> Place | None:
    """The place that torchrun gave this process; None: it was started alone."""
    found = os.environ if environment is None else environment
    if any(name not in found for name in NEEDED):
        return None
    numbers = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    try:
        rank, world, local_rank = (int(found[name]) for name in numbers)
        local_world = int(found.get("LOCAL_WORLD_SIZE", world))
    except ValueError:
        given = ", ".join(f"{name}={found[name]}" for name in numbers)
        raise UsageError(f"{given} are not whole numbers; start the processes with torchrun.", reason="bad-place") from None
    return Place(rank, world, local_rank, local_world)
