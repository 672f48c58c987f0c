"""A mixture of objectives in every batch, each with its share of the rows; one of them is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Self, final

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from glassformer.data.batches import Batch, BatchesByStep
from glassformer.data.data_kinds import PreparedData
from glassformer.foundation.errors import ConfigError
from glassformer.foundation.seeds import derive_seed
from glassformer.model.losses import IGNORED
from glassformer.objectives.base import OBJECTIVES, ObjectiveConfig
from glassformer.objectives.spans import PAD

SHARE = "share"


@final
class MixedBatches:
    """Concatenates the rows of several batches of one step, padded to the widest."""

    def __init__(self, parts: Sequence[BatchesByStep], pad: int) -> None:
        self.parts, self.pad = list(parts), pad

    @property
    def steps_per_epoch(self) -> float:
        """Of the first part."""
        return self.parts[0].steps_per_epoch

    def on(self, device: torch.device) -> MixedBatches:
        return MixedBatches([part.on(device) for part in self.parts], self.pad)

    def batch(self, step: int) -> Batch:
        batches = [part.batch(step) for part in self.parts]
        width = max(batch["ids"].shape[1] for batch in batches)

        def joined(name: str, value: int) -> Tensor:
            return torch.cat([F.pad(one[name], (0, width - one[name].shape[1]), value=value) for one in batches])

        return Batch(ids=joined("ids", self.pad), targets=joined("targets", IGNORED))


@OBJECTIVES.variant("mixture")
@final
class MixtureConfig(ObjectiveConfig):
    """Several text objectives in every batch: ``parts: {spans: {share: 0.85}, answers: {share: 0.15}}``.

    A part is an objective by name with its share of the rows and its settings; ``judged_by`` is the one that is evaluated.
    """

    parts: dict[str, dict[str, Any]] = Field(min_length=1)
    judged_by: str

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        shares = {kind: settings.get(SHARE) for kind, settings in self.parts.items()}
        for kind, share in shares.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
                raise ValueError(f"parts.{kind}.share={share!r} must be a number above 0 and at most 1.")
        if abs(sum(shares.values()) - 1) > 1e-6:  # type: ignore[arg-type]
            raise ValueError(f"the shares of parts are {', '.join(map(str, shares.values()))}; their sum must be 1.")
        if self.judged_by not in self.parts:
            raise ValueError(f"judged_by={self.judged_by!r} must be one of the parts: {', '.join(self.parts)}.")
        for kind, objective in self.objectives.items():
            if isinstance(objective, MixtureConfig) or PAD not in objective.marks() or objective.reads_source:
                raise ValueError(f"parts.{kind} cannot be mixed: rows of one batch must be padded; mix spans and answers.")
        return self

    @cached_property
    def objectives(self) -> dict[str, ObjectiveConfig]:
        """The parts by name."""
        return {
            kind: OBJECTIVES.parse({"kind": kind, **{key: value for key, value in settings.items() if key != SHARE}})
            for kind, settings in self.parts.items()
        }

    @property
    def judge(self) -> ObjectiveConfig:
        """The part that is evaluated."""
        return self.objectives[self.judged_by]

    # Class variables of other objectives; a mixture has them from its parts.
    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(name for one in self.objectives.values() for name in one.reads))

    @property
    def laws(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(law for one in self.objectives.values() for law in one.laws)

    def marks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(mark for one in self.objectives.values() for mark in one.marks()))

    def rows_of(self, batch_size: int) -> dict[str, int]:
        """Rows of each part: its share, rounded; the first part gets the remainder."""
        first, *others = self.parts
        rows = {kind: max(1, round(self.parts[kind][SHARE] * batch_size)) for kind in others}
        left = batch_size - sum(rows.values())
        if left < 1:
            raise ConfigError(
                f"training.batch_size={batch_size} is too small for the {len(self.parts)} objective.parts; enlarge it.",
                reason="batch-smaller-than-parts",
            )
        return {first: left, **rows}

    def batches(self, data: PreparedData, *, context: int, batch_size: int, seed: int) -> MixedBatches:
        made = [
            self.objectives[kind].batches(data, context=context, batch_size=rows, seed=derive_seed(seed, "part", kind))
            for kind, rows in self.rows_of(batch_size).items()
        ]
        return MixedBatches(made, data.tokenizer.mark_id(PAD))


FACTS_OF_THE_JUDGE = ("judged_on", "ask_reads", "metrics", "baselines", "answers_questions")
METHODS_OF_THE_JUDGE = (
    *("evaluate", "validation_metrics", "num_units", "evaluation_settings", "training_sample", "fit_baselines", "fitted_on"),
    *("predict", "ask", "abstain_rule", "remark_on", "sample", "pictures", "tables", "show", "show_with"),
)
"""What a mixture is and does as the part that is evaluated."""


def _by_the_judge(name: str) -> Callable[..., Any]:
    return lambda mixture, *given, **named: getattr(mixture.judge, name)(*given, **named)


for _name in FACTS_OF_THE_JUDGE:
    setattr(MixtureConfig, _name, property(attrgetter(f"judge.{_name}")))
for _name in METHODS_OF_THE_JUDGE:
    setattr(MixtureConfig, _name, _by_the_judge(_name))
