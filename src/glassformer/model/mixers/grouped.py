"""Grouped-query attention: ``dot`` with one head of keys and values for all, unless more are asked for."""

from __future__ import annotations

from typing import Any, ClassVar, final

from pydantic import Field

from glassformer.model.mixers.dot import DotSettings
from glassformer.model.slots import MIXERS


@MIXERS.variant("grouped")
@final
class GroupedConfig(DotSettings):
    """Dot-product attention whose keys and values are shared by groups of heads (Ainslie et al. 2023; Llama).

    The same as ``dot`` with ``kv_heads`` set.
    """

    examples: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"kv_heads": 3, "bias": False}, {"fused": False})

    kv_heads: int | None = Field(default=1, ge=1)
