"""The token that one kernel chooses is that of generation/sampling.py, and the state moves on as without kernels."""

from __future__ import annotations

PROGRAM = """
from glassformer.generation.cuda.kernels.sample import sample_tokens
from glassformer.generation.cuda.kernels.residual import ResidualStream, embed
from glassformer.generation.sampling import Sampling, choose
generator = torch.Generator().manual_seed(0)
for vocabulary, rows in [(65, 40), (1, 3), (2500, 9)]:
    for temperature in [0.0, 1.0, 0.7]:
        scores = (3 * torch.randn(rows, vocabulary, generator=generator)).to(device)
        keys = torch.randint(-2**62, 2**62, (rows,), generator=generator).to(device)
        index = torch.randint(0, 2**20, (rows,), generator=generator).to(device)
        expected = choose(scores, Sampling(temperature=temperature), seen_BV=None, seeds_B=keys, index_B=index).ids_B
        scores[1, vocabulary // 2] = float("nan")
        index_before, first = index.clone(), index - 2
        last, tokens = torch.full((rows,), -7, device=device), torch.full((rows, 6), -7, device=device)
        table, places = (torch.randn(size, 37, generator=generator).to(device) for size in (vocabulary, 9))
        for places in [places, None]:
            index.copy_(index_before)
            at = torch.clamp(torch.arange(rows, device=device) + 5, max=8)
            streams = [ResidualStream.empty(rows, table) for _ in range(2)]
            sample_tokens(streams[0], scores, table_VD=table, position_table_TD=places, temperature=temperature,
                seeds_B=keys, index_B=index,
                 last_B=last, position_B=at, first_B=first, output_tokens_BN=tokens, last_position=8, needs_recomputation=-1)
            embed(streams[1], last, table, at, places)
            assert torch.equal(streams[0].x_BD, streams[1].x_BD)
            assert torch.equal(streams[0].sums_B2P, streams[1].sums_B2P)
        fine = torch.arange(rows, device=device) != 1
        assert torch.equal(last[fine], expected[fine]), (vocabulary, temperature)
        assert 0 <= last[1] < vocabulary
        assert torch.equal(tokens[fine, 2], expected[fine])
        assert tokens[1, 2] == -1
        assert (tokens[:, [0, 1, 3, 4, 5]] == -7).all()
        assert torch.equal(index, index_before + 1)
        assert at.tolist() == [min(row + 6, 8) for row in range(rows)]
"""


def test_draws_what_sampling_draws(run_with_kernels) -> None:
    assert run_with_kernels(PROGRAM) == ""
