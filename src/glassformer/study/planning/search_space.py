"""A search space -> its points: all combinations of a grid, or a random sample from lists and ranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from glassformer.foundation.config import Config, fingerprint
from glassformer.foundation.errors import ConfigError


class Range(Config):
    """Values between two numbers, drawn by ``scale``; whole numbers where both ends are."""

    low: int | float
    high: int | float
    scale: Literal["log", "linear"] = "log"

    def draw(self, generator: np.random.Generator) -> int | float:
        """A random value, rounded to three significant digits."""
        ends = (math.log(self.low), math.log(self.high)) if self.scale == "log" else (self.low, self.high)
        drawn = float(generator.uniform(*ends))
        value = min(max(float(f"{math.exp(drawn) if self.scale == 'log' else drawn:.3g}"), self.low), self.high)
        return round(value) if isinstance(self.low, int) and isinstance(self.high, int) else value


Space = Mapping[str, list[Any] | Range]
"""For each dotted key the values, or the range, to choose from."""


def number_of_points(space: Space, tries: int | None = None) -> int:
    """How many settings are tried; raises if the space has fewer, or a bad range."""
    ranges = {key: values for key, values in space.items() if isinstance(values, Range)}
    for key, one in ranges.items():
        if not one.low < one.high:
            raise ConfigError(
                f"tune.grid.{key}: low={one.low} must be below high={one.high}; swap them.", reason="range-reversed"
            )
        if one.scale == "log" and not one.low > 0:
            raise ConfigError(
                f"tune.grid.{key}: low={one.low} has no logarithm; give a number above 0, or scale: linear.",
                reason="range-not-positive",
            )
    if ranges and tries is None:
        raise ConfigError(
            f"tune.grid.{next(iter(ranges))} is a range; set tune.tries, the number of points to draw at random.",
            reason="range-without-tries",
        )
    size = math.prod(len(values) for values in space.values() if not isinstance(values, Range))
    if tries is not None and not ranges and tries > size:
        raise ConfigError(
            f"tune.tries={tries} is more than all {size} combinations; leave it out to try them all.",
            reason="too-many-tries",
        )
    return size if tries is None else tries


def points_of(space: Space, tries: int | None = None) -> list[dict[str, Any]]:
    """The settings to try: all combinations in order, or ``tries`` distinct random ones, seeded by the space itself."""
    if tries is None:
        lists = [values for values in space.values() if not isinstance(values, Range)]
        return [dict(zip(space, chosen)) for chosen in itertools.product(*lists)]
    plain = {key: values.to_dict() if isinstance(values, Range) else list(values) for key, values in space.items()}
    generator = np.random.default_rng(int(fingerprint([plain, tries])[:16], 16))
    points: list[dict[str, Any]] = []
    for _ in range(1000 * tries):
        point = {
            key: values.draw(generator) if isinstance(values, Range) else values[int(generator.integers(len(values)))]
            for key, values in space.items()
        }
        if point not in points:
            points.append(point)
        if len(points) == tries:
            return points
    raise ConfigError(
        f"tune.tries={tries}: the ranges of tune.grid hold only {len(points)} different settings; ask for fewer.",
        reason="range-too-narrow",
    )
