"""Cross-entropy by our kernels equals torch's, value and gradient; spare columns and ignored targets count for nothing."""

from __future__ import annotations

import pytest

PROGRAM = """
from glassformer.model.kernels.cross_entropy import cross_entropy
rows, vocabulary, width = 7, {vocabulary}, {width}
generator = torch.Generator().manual_seed(0)
table = (4 * torch.randn(rows, width, generator=generator)).to(device)
table[1, 0] = -torch.inf
targets = torch.randint(vocabulary, (rows,), generator=generator).to(device)
targets[1], targets[3] = vocabulary - 1, -100
upstream = torch.randn(rows, generator=generator).to(device)
for dtype, tolerance in [(torch.float32, 1e-5)] + [(torch.bfloat16, 2e-2)] * (device == "cuda"):
    ours, theirs = (table.to(dtype).clone().requires_grad_() for _ in range(2))
    loss = cross_entropy(ours, targets, vocabulary)
    expected = F.cross_entropy(theirs[:, :vocabulary].float(), targets, reduction="none", ignore_index=-100)
    assert loss.dtype == torch.float32
    assert float(loss[3]) == 0.0
    assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    loss.backward(upstream)
    expected.backward(upstream)
    assert_close(ours.grad, theirs.grad, rtol=tolerance, atol=tolerance)
    assert not ours.grad[:, vocabulary:].any()
    assert not ours.grad[3].any()
"""


@pytest.mark.parametrize(("vocabulary", "width"), [(65, 128), (11, 11), (9000, 9024)])
def test_equals_torch(run_with_kernels, vocabulary: int, width: int) -> None:
    assert run_with_kernels(PROGRAM.format(vocabulary=vocabulary, width=width)) == ""


BEYOND = """
from glassformer.model.kernels.cross_entropy import cross_entropy
rows, vocabulary, width = 7, 11, 16
table = torch.randn(rows, width, generator=torch.Generator().manual_seed(0)).to(device)
good = torch.tensor([10, 3, 0, -100, 7, 2, 5], device=device)
targets, beyond = good.clone(), [0, 2, 5, 6]
targets[beyond] = torch.tensor({beyond}, device=device)
losses, gradients = [], []
for these in (targets, good):
    scores = table.clone().requires_grad_()
    losses.append(cross_entropy(scores, these, vocabulary))
    losses[-1].sum().backward()
    gradients.append(scores.grad)
others = [1, 3, 4]
assert losses[0][beyond].isnan().all(), losses[0]
assert gradients[0][beyond][:, :vocabulary].isnan().all(), gradients[0]
assert_close(losses[0][others], losses[1][others], rtol=0, atol=0)
assert_close(gradients[0][others], gradients[1][others], rtol=0, atol=0)
assert float(losses[0][3]) == 0.0 and not gradients[0][3].any()
"""


@pytest.mark.parametrize(
    "beyond",
    [
        (11, 11, 11, 11),  # one past the vocabulary: spare columns
        (15, 16, 15, 15),  # the last spare column, and the next row's first
        (1 << 40, 1 << 33, 1 << 62, 1 << 40),  # cache that is nobody's: reading it would end the process
    ],
)
def test_a_target_beyond_the_vocabulary_is_not_a_number_and_nothing_is_read_for_it(run_with_kernels, beyond) -> None:
    assert run_with_kernels(BEYOND.format(beyond=beyond)) == ""
