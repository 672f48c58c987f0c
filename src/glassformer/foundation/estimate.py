"""A number with its uncertainty, as it appears everywhere: in JSON, in tables, on pages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """``value`` with a 95 % interval from ``n`` independent pieces of evidence.

    ``low`` and ``high`` are None when nothing can be said (n below 2). ``value`` is None when the figure has no
    meaning for this model or text; ``reason`` then says why.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: value, low, high, n (and the reason when there is one)."""
        document: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high, "n": self.n}
        if self.reason is not None:
            document["reason"] = self.reason
        return document

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width; None without an interval."""
        return None if self.low is None or self.high is None else 0.5 * (self.high - self.low)

    def within(self, bounds: tuple[float, float] | None) -> Estimate:
        """The same with its interval cut at what the figure can be at all; unchanged without bounds."""
        if bounds is None or self.low is None or self.high is None:
            return self
        return replace(self, low=max(self.low, bounds[0]), high=min(self.high, bounds[1]))

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Estimate:
        return cls(**{key: document[key] for key in cls.__dataclass_fields__ if key in document})

    def __str__(self) -> str:
        if self.value is None:
            return f"not defined ({self.reason})" if self.reason else "not defined"
        if self.low is None or self.high is None:
            return _digits(self.value)
        return f"{_digits(self.value)} [{_digits(self.low)}, {_digits(self.high)}]"


def _digits(number: float) -> str:
    """Four significant digits without an exponent for the sizes people meet."""
    if number == 0 or 1e-4 <= abs(number) < 1e7:
        digits = 4 if number == 0 else max(0, 3 - math.floor(math.log10(abs(number))))
        return f"{number:.{digits}f}"
    return f"{number:.3e}"
