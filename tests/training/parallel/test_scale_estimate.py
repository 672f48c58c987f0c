"""Plans for several GPUs: by hand, and what torch's own sharding leaves on one of them."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from glassformer.foundation.errors import UnknownName, UsageError
from glassformer.model.config import ModelConfig
from glassformer.training.parallel.scale_estimate import GPUS, largest_share, reached, scale_plans

MODEL = ModelConfig.parse({"width": 48, "heads": 3, "layers": 2, "context": 20, "head": "untied"})


def plans(shapes, **changes):
    settings = {"largest_block": 0, "optimizer_bytes": 0, "activation_bytes": 0, "step_flops": 1e15, "steps": 10}
    return scale_plans(shapes, **{**settings, "processes": 8, "nodes": 1, "gpu": "h100", **changes})


def test_by_hand() -> None:
    """124 M parameters on 8 H100 of one node: 2 x 4 bytes x 7/8 of them at 80 % of 450 GB/s are 2.4 ms; gradients 496 MB."""
    ddp, fsdp = plans([(124_000_000,)])
    assert ddp.memory["gradients"] == ddp.memory["sums of gradients"] == 496_000_000
    assert ddp.communication_seconds == pytest.approx(2.41e-3, rel=0.01)
    assert fsdp.communication_seconds == pytest.approx(3.62e-3, rel=0.01)
    assert fsdp.memory["weights"] == 62_000_000
    assert ddp.bytes_between_nodes == 0.0
    low, high = ddp.compute_seconds
    assert low < 1e15 / (8 * 989e12 * 0.46) < high
    assert ddp.seconds[0] == pytest.approx(10 * (low + ddp.communication_seconds))


def test_several_nodes_and_pieces() -> None:
    """On 64 in 8 nodes an eighth less a sixty-fourth crosses nodes, both ways; more pieces need more partial sums."""
    (ddp, _), (whole, _) = plans([(124_000_000,)], processes=64, nodes=8), plans([(124_000_000,)], pieces=32)
    assert ddp.bytes_between_nodes == pytest.approx(2 * 496e6 * (1 / 8 - 1 / 64))
    assert ddp.communication_seconds == pytest.approx(5.1e-3, rel=0.02)
    assert whole.memory["sums of gradients"] == 3 * 496_000_000
    assert not plans([(100_000_000_000,)])[0].fits


@pytest.mark.parametrize("processes", [1, 2, 16, 4096])
def test_torch_leaves_as_much_on_one_process(processes: int) -> None:
    """Its fake process group cuts the real network without other processes; a function of shapes gives the same number."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    network = MODEL.shapes(31)
    shapes = [tuple(weight.shape) for weight in network.parameters()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=processes)
        try:
            mesh = init_device_mesh("cpu", (processes,))
            for block in network.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(network, mesh=mesh)
            held = sum(weight.to_local().numel() for weight in network.parameters())
        finally:
            dist.destroy_process_group()
    assert largest_share(shapes, processes) == held
    assert largest_share(shapes, 1) == sum(math.prod(shape) for shape in shapes)


def test_refusals_and_the_nearest_size() -> None:
    with pytest.raises(UnknownName):
        plans([(8,)], gpu="h1000")
    for nodes in (3, 16):
        with pytest.raises(UsageError) as refused:
            plans([(8,)], nodes=nodes)
        assert refused.value.reason == "bad-nodes"
    assert reached(9_000_000) < reached(124_000_000)
    assert all(torch.isfinite(torch.tensor(list(kind))).all() for kind in GPUS.values())
