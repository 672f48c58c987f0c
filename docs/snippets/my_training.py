# docs/snippets/my_training.py
import torch

from glassformer.training.slots import OPTIMIZERS, SCHEDULES, FunctionalOptimizer, OptimizerConfig, ScheduleConfig, decay_groups


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
