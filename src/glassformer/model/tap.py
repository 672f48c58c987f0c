"""A named place in a model, with named axes, where one can look at, or replace, what passes through.

A tap is the identity. It exists so that a place has a name (``blocks.2.attention.mixer.pattern``) and axes (batch, head,
query, key), and so that a fast path that never forms the value can see that somebody wants it (``in_use``).
"""

from __future__ import annotations

from typing import final

from torch import Tensor, nn


@final
class Tap(nn.Module):
    """Gives back what it gets. Hooks on it see, and may replace, the value. ``axes``: their names, in order.

    ``averages``: of a pattern, whether it averages, so that each of its rows sums to one.
    """

    def __init__(self, axes: str = "", *, averages: bool = True) -> None:
        super().__init__()
        self.axes, self.averages = tuple(axes.split()), averages

    def forward(self, value: Tensor) -> Tensor:
        return value

    @property
    def in_use(self) -> bool:
        """Whether a hook is attached, so that the value must really be formed."""
        return bool(self._forward_hooks) or bool(self._forward_pre_hooks)

    def extra_repr(self) -> str:
        return ", ".join(self.axes)


STREAM = "batch position channel"
"""The axes of the residual stream and of anything else with one vector for each token."""
BY_HEAD = "batch head position channel"
PATTERN = "batch head query key"
