"""The choices of training: how many steps of how much, by which rule, in which precision."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from glassformer.foundation.config import Config
from glassformer.training.slots import (
    AFTER_STEPS,
    AVERAGES,
    OPTIMIZERS,
    SCHEDULES,
    AfterStepConfig,
    OptimizerConfig,
    ScheduleConfig,
)


class TrainingConfig(Config):
    """One step sees ``batch_size`` rows; ``accumulate`` micro-batches of it save memory."""

    steps: int | None = Field(default=None, ge=1)
    """Number of steps."""
    epochs: float | None = Field(default=None, gt=0)
    """Instead of steps: passes over the training data."""
    batch_size: int = Field(default=32, ge=1, le=1 << 20)
    """Rows per step."""
    accumulate: int = Field(default=1, ge=1)
    """Micro-batches per batch, to save memory; without dropout the result is the same up to rounding."""
    lr: float = Field(default=1e-3, gt=0)
    """The peak learning rate; the schedule multiplies it."""
    weight_decay: float = Field(default=0.1, ge=0)
    """Weight decay; `--dry-run` lists the weights that decay."""
    clip: float | None = Field(default=1.0, gt=0)
    """Clip the gradient to this norm; `null`: no clipping."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """The share of each training target that is spread over the vocabulary; evaluation never smooths."""
    optimizer: Annotated[SerializeAsAny[OptimizerConfig], BeforeValidator(OPTIMIZERS.parse)] = OPTIMIZERS.default("adamw")
    schedule: Annotated[SerializeAsAny[ScheduleConfig], BeforeValidator(SCHEDULES.parse)] = SCHEDULES.default("cosine")
    after_step: Annotated[SerializeAsAny[AfterStepConfig], BeforeValidator(AFTER_STEPS.parse)] = AFTER_STEPS.default("none")
    average: Annotated[SerializeAsAny[AfterStepConfig], BeforeValidator(AVERAGES.parse)] = AVERAGES.default("none")
    """The average of the weights that is evaluated and saved; training itself goes on from the weights."""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """`auto`: bf16 on a GPU that has it, float32 elsewhere."""
    compile: Literal["auto"] | bool = "auto"
    """Whether torch compiles the step; `auto`: on a GPU, in runs and studies long enough to repay it."""
    cuda_graph: Literal["auto"] | bool = "auto"
    """Whether the step is captured as a CUDA graph and replayed; `auto`: on a GPU, from 30 steps on."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:1`."""
    pieces: int | None = Field(default=None, ge=1, le=1 << 16)
    """Pieces of a batch that processes share: the same pieces give the same bits on any number of processes; `null`: as many as
    processes at the start, and with one process the batch is not cut."""
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"
    """On several processes: `ddp` gives each the whole model, `fsdp` a share of it; `auto`: ddp where the model fits."""
    log_every: int = Field(default=10, ge=1)
    """On a GPU: steps between reads of the loss."""
    out_of_memory: Literal["stop", "halve"] = "stop"
    """``halve``: halve the micro-batch and continue; the effective batch stays the same."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("training.steps and training.epochs are both given; give one of them.")
        if self.steps is None and self.epochs is None:
            raise ValueError("training.steps (or training.epochs) is missing; say how long to train.")
        if self.average.kind != "none" and self.optimizer.kind == "schedule_free":
            raise ValueError(
                f"training.average={self.average.kind} does not go with training.optimizer=schedule_free, which evaluates an "
                "average of its own; drop one of them."
            )
        if self.batch_size % self.accumulate:
            divisors = [n for n in range(1, self.batch_size + 1) if self.batch_size % n == 0]
            raise ValueError(
                f"training.accumulate={self.accumulate} does not divide training.batch_size={self.batch_size}; "
                f"use one of {divisors}."
            )
        if self.pieces is not None:
            if self.pieces & (self.pieces - 1):
                raise ValueError(
                    f"training.pieces={self.pieces} is not a power of two, and gradients are added in pairs; "
                    f"use {1 << (self.pieces.bit_length() - 1)} or {1 << self.pieces.bit_length()}."
                )
            if self.batch_size % (self.pieces * self.accumulate):
                whole = self.pieces * self.accumulate
                raise ValueError(
                    f"training.batch_size={self.batch_size} cannot be cut into training.pieces={self.pieces} of "
                    f"training.accumulate={self.accumulate} micro-batches each; use a multiple of {whole}, for example "
                    f"{-(-self.batch_size // whole) * whole}."
                )
        return self


class EvaluationConfig(Config):
    """When the validation split is read while training, whether that may end the run, and texts measured on their own."""

    every: int | None = Field(default=None, ge=1)
    """Steps between evaluations; by default a tenth of the run."""
    while_training: bool = True
    """False: validation is not read before the run has ended; ``evaluate`` and studies measure its last checkpoint."""
    by: str | None = None
    """The metric that chooses the best checkpoint and that ``patience`` watches; by default the objective's first."""
    batch_size: int | None = Field(default=None, ge=1)
    """Rows evaluated at once, while training and after; changes results by rounding at most."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this many evaluations without improvement; off by default."""
    texts: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """Single texts by name, which ``glassformer evaluate`` measures too; training does not see them."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.patience is not None and not self.while_training:
            raise ValueError(
                f"evaluation.patience={self.patience} needs evaluations, which evaluation.while_training=false leaves out; "
                "drop one of them."
            )
        return self


class CheckpointConfig(Config):
    """When checkpoints are written, and which stay."""

    every: int | None = Field(default=None, ge=1)
    """Steps between checkpoints; by default a tenth of the run."""
    keep: int = Field(default=2, ge=2)
    """How many of the newest checkpoints to keep."""
    best: bool = False
    """Also keep the checkpoint that is best by ``evaluation.by``."""
    film: int | None = Field(default=None, ge=2, le=1000)
    """Also keep this many snapshots of the weights alone, close together at the start, for ``look --film``."""
