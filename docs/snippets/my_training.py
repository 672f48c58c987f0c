# docs/snippets/my_training.py
import torch

from glassformer.training.slots import (
    AFTER_STEPS,
    AVERAGES,
    OPTIMIZERS,
    SCHEDULES,
    AfterStep,
    AfterStepConfig,
    FunctionalOptimizer,
    OptimizerConfig,
    ScheduleConfig,
    decay_groups,
)


@OPTIMIZERS.variant("my-lion")
class LionConfig(OptimizerConfig):
    """Steps by the sign of a mean of gradients (Lion, Chen et al. 2023)."""

    fast: float = 0.9
    slow: float = 0.99

    def build(self, parameters, *, lr, weight_decay):
        return [Lion(decay_groups(parameters, weight_decay), lr=lr, fast=self.fast, slow=self.slow)]

    def numbers_per_parameter(self, name, parameter):
        return parameter.numel()


class Lion(FunctionalOptimizer):
    def change(self, group, weights, gradients):
        for weight, gradient in zip(weights, gradients):
            mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
            way = torch.lerp(gradient, mean, group["fast"]).sign()
            weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(way, alpha=group["lr"])
            mean.lerp_(gradient, 1 - group["slow"])


@SCHEDULES.variant("my-triangle")
class TriangleConfig(ScheduleConfig):
    """Up to the full rate at ``peak`` of the run, and down to zero again."""

    peak: float = 0.2

    def lr_multiplier(self, step, steps):
        done = (step + 1) / steps
        return min(done / self.peak, (1 - done) / (1 - self.peak) + 1 / steps)


@AFTER_STEPS.variant("my-limit")
class LimitConfig(AfterStepConfig):
    """No weight leaves [-limit, limit]."""

    limit: float = 1.0

    def build(self, model, parameters):
        return Limit(parameters, self.limit)


class Limit(AfterStep):
    def __init__(self, parameters, limit):
        super().__init__()
        self.weights, self.limit = list(parameters.values()), limit

    @torch.no_grad()
    def __call__(self):
        torch._foreach_clamp_min_(self.weights, -self.limit)
        torch._foreach_clamp_max_(self.weights, self.limit)


@AVERAGES.variant("my-mean")
class MeanConfig(AfterStepConfig):
    """The plain mean of the weights after every step is evaluated and saved."""

    def build(self, model, parameters):
        return Mean(parameters)

    def numbers_per_parameter(self, name, parameter):
        return parameter.numel() + 1


class Mean(AfterStep):
    keys = ("sum", "count")  # what it stores in ``state``, saved with the optimizer

    def __init__(self, parameters):
        super().__init__()
        self.weights = list(parameters.values())

    @torch.no_grad()
    def __call__(self):
        for weight in self.weights:
            memory = self.state[weight]
            memory.setdefault("sum", torch.zeros_like(weight)).add_(weight)
            memory.setdefault("count", torch.zeros((), device=weight.device)).add_(1)

    def averaged(self):
        return {weight: memory["sum"] / memory["count"] for weight, memory in self.state.items()}
