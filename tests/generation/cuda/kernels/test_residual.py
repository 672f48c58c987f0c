"""The residual's kernels equal torch's operations one after the other, for sizes that fill no tile and for some that do."""

from __future__ import annotations

import pytest

START = """
from glassformer.generation.cuda.kernels.residual import ResidualStream, add_linear, after_norm, embed, linear_of_normed
generator = torch.Generator().manual_seed(0)
dtype, tolerance = (torch.bfloat16, 3e-2) if device == "cuda" else (torch.float32, 1e-4)
def drawn(*shape):
    values = torch.randn(*shape, generator=generator)
    guarded = torch.full((values.numel() + 9999,), float("nan"))  # whoever reads on beyond the end notices
    guarded[: values.numel()] = values.flatten()
    return guarded.to(device, dtype)[: values.numel()].view(shape)
def check(found, expected, dtype=dtype):
    assert found.dtype == dtype
    assert_close(found.float(), expected, rtol=tolerance, atol=tolerance * expected.abs().max().item())
def check_sums(residual):
    x = residual.x_BD.float()
    assert_close(residual.sums_B2P.sum(-1), torch.stack([x.sum(-1), (x * x).sum(-1)], dim=-1), rtol=1e-4, atol=1e-3)
rows, inputs, outputs = SIZES
table, places = drawn(12, inputs), drawn(9, inputs) + 3
ids, at = (torch.randint(size, (rows,), generator=generator).to(device) for size in (12, 9))
residual = ResidualStream.empty(rows + 2, table).first(rows)
embed(residual, ids, table, at, places)
x = residual.x_BD.float()
"""
EMBEDS = """
check(residual.x_BD, table.float()[ids] + places.float()[at])
check_sums(residual)
alone = ResidualStream.empty(rows, table)
embed(alone, ids, table)
assert torch.equal(alone.x_BD, table[ids])
check_sums(alone)
"""
MAPS = """
weight, bias, scale, shift = drawn(outputs, inputs) / 12, drawn(outputs), drawn(inputs), drawn(inputs)
wide = [tensor.float() for tensor in (weight, bias, scale, shift)]
normed = {"scale_I": scale, "shift_I": shift, "eps": 1e-3, "centred": True}
layer, rms = F.layer_norm(x, (inputs,), wide[2], wide[3], 1e-3), F.rms_norm(x, (inputs,), wide[2], 1e-3)
plain = after_norm(weight, None, scale_I=scale, shift_I=None, eps=1e-3, centred=False)
check(linear_of_normed(residual, plain), rms @ wide[0].T)
check(linear_of_normed(residual, after_norm(weight, None, **normed)), layer @ wide[0].T)
both = after_norm(weight, bias, **normed)
expected = layer @ wide[0].T + wide[1]
check(linear_of_normed(residual, both, activation="gelu"), F.gelu(expected))
check(linear_of_normed(residual, both, activation="relu"), F.relu(expected))
out = torch.empty(rows, outputs, device=device)
assert linear_of_normed(residual, both, out=out) is out
check(out, expected, torch.float32)
"""
FOLDS = """
weight, bias, scale, shift = (3 * drawn(*shape) for shape in [(outputs, inputs), (outputs,), (inputs,), (inputs,)])
for bias, shift, centred in [(None, None, False), (bias, None, True), (None, shift, True), (bias, shift, False)]:
    linear = after_norm(drawn(outputs, inputs), bias, scale_I=scale, shift_I=shift, eps=1e-3, centred=centred)
    addresses = [tensor.data_ptr() for tensor in (linear.weight_OI, linear.bias_O, linear.sums_O) if tensor is not None]
    again = after_norm(weight, bias, scale_I=scale, shift_I=shift, eps=1e-3, centred=centred, into=linear)
    assert addresses == [tensor.data_ptr() for tensor in (again.weight_OI, again.bias_O, again.sums_O) if tensor is not None]
    assert torch.equal(again.weight_OI, weight * scale)
    assert (again.sums_O is not None) is centred
    if centred:
        assert_close(again.sums_O, (weight * scale).float().sum(1), rtol=1e-5, atol=1e-4)
    expected = (0 if bias is None else bias.float()) + (0 if shift is None else weight.float() @ shift.float())
    assert (again.bias_O is None) is (bias is None and shift is None)
    if again.bias_O is not None:
        assert_close(again.bias_O, expected, rtol=1e-5, atol=1e-3)
"""
FILLED = """
import glassformer.generation.cuda.kernels.residual as module
told, launch = [], module.launch
module.launch = lambda *arguments, **options: (told.append(options["FILLED"]), launch(*arguments, **options))
for rows, inputs, outputs in [(16, 256, 48), (17, 256, 48), (16, 200, 48), (16, 256, 50), (128, 256, 320), (65, 256, 320)]:
    table = drawn(5, inputs)
    residual = ResidualStream.empty(rows, table)
    residual.x_BD.copy_(drawn(rows, inputs))
    weight, scale = drawn(outputs, inputs), drawn(inputs)
    linear_of_normed(residual, after_norm(weight, None, scale_I=scale, shift_I=None, eps=1.0, centred=False))
assert told == [True, False, False, False, True, False]
"""
SUMS = """
for bias in (drawn(inputs), None):
    z, weight, before = drawn(rows, outputs), drawn(inputs, outputs) / 8, residual.x_BD.float().clone()
    add_linear(residual, z, weight, bias)
    check(residual.x_BD, before + F.linear(z.float(), weight.float(), None if bias is None else bias.float()))
    check_sums(residual)
"""


@pytest.mark.parametrize(
    "sizes",
    [(1, 150, 70), (19, 150, 70), (70, 150, 70), (270, 150, 70), (16, 256, 512), (128, 256, 512), (16, 150, 512)],
    ids=str,
)
@pytest.mark.parametrize("program", [EMBEDS, FOLDS, MAPS, SUMS], ids=["embeds", "folds", "linears", "sums"])
def test_equals_torchs_operations(run_with_kernels, program, sizes) -> None:
    assert run_with_kernels(START.replace("SIZES", str(sizes)) + program) == ""


def test_only_tiles_that_are_filled_exactly_are_read_without_masks(run_with_kernels) -> None:
    assert run_with_kernels(START.replace("SIZES", "1, 16, 16") + FILLED) == ""
