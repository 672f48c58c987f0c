"""What an encoder made of the sources, for a decoder to attend to: vectors, padding, and the keys and values made of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Memory:
    """The encoder's vectors [B, S, D]. ``padding_BS``: True at padding, None where there is none.

    ``stored``: by layer, the keys and values that cross-attention made of the vectors, where they are stored for further passes
    (``keep``).
    """

    vectors_BSD: Tensor
    padding_BS: Tensor | None = None
    keep: bool = False
    stored: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.vectors_BSD)

    def for_rows(self, rows: int) -> Memory:
        """The same for ``rows`` rows of targets: one source for all of them, or each for as many neighbours (beams)."""
        if rows == self.rows:
            return self

        def repeated(tensor: Tensor) -> Tensor:
            return tensor.expand(rows, *tensor.shape[1:]) if self.rows == 1 else tensor.repeat_interleave(rows // self.rows, 0)

        stored = {layer: (repeated(keys), repeated(values)) for layer, (keys, values) in self.stored.items()}
        padding_BS = None if self.padding_BS is None else repeated(self.padding_BS)
        return replace(self, vectors_BSD=repeated(self.vectors_BSD), padding_BS=padding_BS, stored=stored)
