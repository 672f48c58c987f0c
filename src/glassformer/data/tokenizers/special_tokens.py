"""A tokenizer with additional special tokens ("marks") for objectives: a mask, the end of an answer.

Text is never encoded as a mark: marks are inserted by id. Wraps any other kind; its file holds that kind's settings and the
marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, final

import numpy as np

from glassformer.data.tokenizers.base import Tokenizer
from glassformer.data.tokenizers.files import tokenizer_of
from glassformer.foundation.errors import DataError


@final
class MarkedTokenizer(Tokenizer):
    """``inner`` with ``marks``: the first mark has the id ``inner.size``. ``own_marks``, ``prefix``: see ``Tokenizer``."""

    kind = "marked"

    def __init__(
        self,
        inner: Tokenizer,
        marks: Sequence[str],
        *,
        own_marks: Mapping[str, int] | None = None,
        prefix: Sequence[int] = (),
    ) -> None:
        self.own_marks, self.prefix = own_marks or inner.own_marks, tuple(prefix) or inner.prefix
        if isinstance(inner, MarkedTokenizer):
            marks = (*inner.marks, *marks)
            inner = inner.inner
        if len(set(marks)) < len(marks) or not all(marks):
            raise DataError(
                f"The marks {list(marks)} of a tokenizer must be different names that are not empty.", reason="bad-marks"
            )
        self.inner: Tokenizer = inner
        self.marks = tuple(marks)
        self.start_id, self.stop_id, self.unknown_id = inner.start_id, inner.stop_id, inner.unknown_id
        self.pad_id, self.mask_id = inner.pad_id, inner.mask_id
        self.revision = inner.revision  # type: ignore[misc]
        self.dropped = getattr(inner, "dropped", 0)

    @property
    def size(self) -> int:
        return self.inner.size + len(self.marks)

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return self.inner.encode_batch(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """The text, with marks by name."""
        self.check_ids(ids)
        parts = []
        for is_mark, run in groupby(ids, key=lambda token_id: token_id >= self.inner.size):
            of_run = list(run)
            parts.append("".join(map(self.token_text, of_run)) if is_mark else self.inner.decode(of_run))
        return "".join(parts)

    def stable_length(self, ids: Sequence[int]) -> int:
        own = range(self.inner.size, self.size)
        begin = next((at for at in range(len(ids), 0, -1) if ids[at - 1] in own), 0)  # what stands before a mark is done
        return begin + self.inner.stable_length(ids[begin:])

    def token_text(self, token_id: int) -> str:
        self.check_ids([token_id])
        own = token_id - self.inner.size
        return self.marks[own] if own >= 0 else self.inner.token_text(token_id)

    def byte_lengths(self) -> np.ndarray:
        return np.concatenate([self.inner.byte_lengths(), np.zeros(len(self.marks))])

    def settings(self) -> dict[str, Any]:
        own = {"own_marks": dict(self.own_marks), "prefix": list(self.prefix)} if self.own_marks else {}
        return {"kind": self.inner.kind, "settings": self.inner.settings(), "marks": list(self.marks), **own}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> MarkedTokenizer:
        marks = settings.get("marks")
        if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
            raise DataError("The settings of a marked tokenizer need 'marks', a list of texts.", reason="bad-settings")
        own = {key: settings[key] for key in ("own_marks", "prefix") if key in settings}
        made = cls(tokenizer_of(settings["kind"], settings["settings"]), marks, **own)
        made.check_ids([*made.own_marks.values(), *made.prefix])
        return made
