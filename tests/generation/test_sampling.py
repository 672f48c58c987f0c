"""Values on paper, the frequencies of draws, and the law of a sure choice: rounding within the slack never changes it."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.foundation.errors import UsageError
from glassformer.generation.sampling import Sampling, choose, count_kept, gumbel, penalise, splitmix64

PROBABILITIES = [0.5, 0.3, 0.15, 0.05]
LOGITS_1V = torch.tensor([PROBABILITIES]).log()
GREEDY = Sampling(temperature=0)


def draws(logits_V: torch.Tensor, sampling: Sampling, *, number: int, seed: int = 7) -> torch.Tensor:
    """The tokens a row with ``seed`` draws at the indices 0, 1, 2, ... when the scores stay the same."""
    seeds_N = torch.full((number,), seed)
    logits_NV = logits_V.expand(number, -1)
    return choose(logits_NV, sampling, seen_BV=None, seeds_B=seeds_N, index_B=torch.arange(number)).ids_B


def choose_one(logits_1V: torch.Tensor, sampling: Sampling, *, slack: float = 0.0, seed: int = 3) -> tuple[int, bool]:
    choice = choose(logits_1V, sampling, seen_BV=None, seeds_B=torch.tensor([seed]), index_B=torch.tensor([5]), slack=slack)
    return int(choice.ids_B), bool(choice.sure_B)


class TestByHand:
    def test_splitmix64_gives_its_published_numbers(self):
        numbers = splitmix64(torch.tensor([1234567]), torch.arange(5)).tolist()
        expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
        assert [number % 2**64 for number in numbers] == expected

    def test_noise_is_the_formula_on_the_upper_bits(self):
        seed, index, token = 11, 4, 9
        bits = int(splitmix64(torch.tensor([seed]), torch.tensor([(4 << 32) + 9]))) % 2**64 >> 32
        expected = -math.log(-math.log1p(-(bits + 0.5) / 2**32))
        noise = gumbel(torch.tensor([seed]), torch.tensor([index]), torch.tensor([[token]]))
        torch.testing.assert_close(noise, torch.tensor([[expected]]))

    def test_penalty_divides_positive_and_multiplies_negative_scores_of_seen_ids(self):
        scores_BV = torch.tensor([[2.0, -1.0, 0.5], [2.0, -1.0, 0.5]])
        seen_BV = torch.tensor([[True, True, False], [False, False, True]])
        expected = torch.tensor([[1.0, -2.0, 0.5], [2.0, -1.0, 0.25]])
        torch.testing.assert_close(penalise(scores_BV, seen_BV, 2.0), expected)

    @pytest.mark.parametrize(
        ("top_k", "top_p", "kept"),
        [
            (None, 0.49, 1),  # 0.5 alone reaches 0.49
            (None, 0.51, 2),
            (None, 0.79, 2),
            (None, 0.81, 3),
            (None, 1.0, 4),
            (2, None, 2),
            (9, None, 4),
            (3, 0.52, 1),  # among the best three the first has 0.5 / 0.95 = 0.526
            (3, 0.53, 2),
            (1, 0.99, 1),
        ],
    )
    def test_filters_keep_what_they_say(self, top_k, top_p, kept):
        assert count_kept(LOGITS_1V, top_k, top_p).tolist() == [[kept]]

    def test_filters_look_at_each_row_alone(self):
        two_rows = torch.tensor([PROBABILITIES, [0.9, 0.05, 0.03, 0.02]]).log()
        assert count_kept(two_rows, None, 0.81).tolist() == [[3], [1]]

    def test_greedy_takes_the_best(self):
        assert choose_one(torch.tensor([[0.1, 2.0, -3.0, 1.9]]), GREEDY) == (1, True)

    @pytest.mark.parametrize("temperature", [1e-3, 1e-38, 1e-40, 1e-46])
    @pytest.mark.parametrize("top_p", [None, 0.9])
    def test_the_smallest_temperatures_take_the_best(self, temperature, top_p):
        """Also where scores divided by them would all be infinite."""
        assert choose_one(torch.tensor([[0.1, 3.0, 2.0, 0.5]]), Sampling(temperature=temperature, top_p=top_p))[0] == 1

    def test_greedy_with_penalty_leaves_what_was_said(self):
        choice = choose(
            torch.tensor([[0.1, 2.0, -3.0, 1.9]]),
            Sampling(temperature=0, repetition_penalty=1.2),
            seen_BV=torch.tensor([[False, True, False, False]]),
            seeds_B=torch.tensor([1]),
            index_B=torch.tensor([0]),
        )
        assert choice.ids_B.tolist() == [3]  # 2.0 / 1.2 < 1.9

    def test_one_token_in_the_vocabulary(self):
        assert choose_one(torch.tensor([[0.3]]), GREEDY, slack=1e-5) == (0, True)
        assert choose_one(torch.tensor([[0.3]]), Sampling(top_k=5, top_p=0.5), slack=1e-5) == (0, True)


class TestDraws:
    @pytest.mark.parametrize(
        ("sampling", "expected"),
        [
            (Sampling(), PROBABILITIES),
            (Sampling(temperature=0.5), [0.25 / 0.365, 0.09 / 0.365, 0.0225 / 0.365, 0.0025 / 0.365]),
            (Sampling(top_k=2), [0.625, 0.375, 0.0, 0.0]),
            (Sampling(top_p=0.81), [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0.0]),
            (Sampling(top_k=3, top_p=0.52), [1.0, 0.0, 0.0, 0.0]),
        ],
    )
    def test_frequencies_are_the_probabilities(self, sampling, expected):
        number = 20_000
        counts = torch.bincount(draws(LOGITS_1V, sampling, number=number), minlength=4) / number
        for share, p in zip(counts.tolist(), expected):
            assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / number)

    def test_consecutive_draws_are_unrelated(self):
        number = 20_000
        drawn = draws(torch.zeros(1, 2), Sampling(), number=number)
        same = (drawn[1:] == drawn[:-1]).float().mean()
        assert abs(float(same) - 0.5) <= 4 * 0.5 / math.sqrt(number)

    def test_noise_has_the_moments_of_gumbel(self):
        noise = gumbel(torch.arange(40), torch.arange(40), torch.arange(1000).unsqueeze(0))
        assert noise.isfinite().all()
        assert abs(float(noise.mean()) - 0.5772) < 4 * 1.2825 / 200
        assert abs(float(noise.std()) - 1.2825) < 0.03

    def test_a_row_draws_the_same_whatever_stands_beside_it(self):
        torch.manual_seed(0)
        logits_BV = torch.randn(5, 29)
        seeds_B, index_B = torch.tensor([3, 1, 4, 1, 5]), torch.tensor([0, 1, 2, 3, 4])
        for sampling in (Sampling(), Sampling(top_k=7, top_p=0.9)):
            together = choose(logits_BV, sampling, seen_BV=None, seeds_B=seeds_B, index_B=index_B).ids_B
            alone = [
                int(choose(logits_BV[[b]], sampling, seen_BV=None, seeds_B=seeds_B[[b]], index_B=index_B[[b]]).ids_B)
                for b in range(5)
            ]
            assert together.tolist() == alone


class TestSure:
    def test_a_near_tie_is_not_sure(self):
        assert choose_one(torch.tensor([[1.0, 10.0, 10.0 - 1e-4]]), GREEDY, slack=1e-5) == (1, False)
        assert choose_one(torch.tensor([[1.0, 10.0, 10.0 - 3e-4]]), GREEDY, slack=1e-5) == (1, True)

    def test_scores_that_are_no_numbers_are_not_sure(self):
        for sampling in (GREEDY, Sampling(), Sampling(top_k=2), Sampling(top_p=0.5)):
            assert not choose_one(torch.tensor([[1.0, float("nan"), 3.0]]), sampling, slack=1e-5)[1]

    def test_a_winner_on_the_border_of_top_k_is_not_sure(self):
        assert not choose_one(torch.tensor([[5.0, 5.0 - 1e-6, 1.0]]), Sampling(top_k=1), slack=1e-5)[1]
        assert choose_one(torch.tensor([[5.0, 4.0, 1.0]]), Sampling(top_k=1), slack=1e-5)[1]

    @pytest.mark.parametrize(
        "sampling",
        [
            GREEDY,
            Sampling(),
            Sampling(temperature=0.3),
            Sampling(top_k=1),
            Sampling(top_k=4),
            Sampling(top_p=0.7),
            Sampling(top_k=6, top_p=0.8, temperature=1.7),
            Sampling(repetition_penalty=1.7, top_p=0.9),
        ],
    )
    def test_rounding_never_changes_a_sure_choice(self, sampling):
        """Scores on a coarse grid, so that ties and near ties abound; then every score is moved by up to the slack."""
        rng = torch.Generator().manual_seed(3)
        rows, vocabulary, slack = 3000, 23, 1e-2
        logits_BV = torch.randint(-4, 5, (rows, vocabulary), generator=rng) / 2
        seen_BV = torch.rand(rows, vocabulary, generator=rng) < 0.3
        others = {"seen_BV": seen_BV, "seeds_B": torch.arange(rows), "index_B": torch.arange(rows) % 11}
        moved_BV = (2 * torch.rand(rows, vocabulary, generator=rng) - 1).sign() * slack * logits_BV.abs().amax(-1, keepdim=True)
        choice = choose(logits_BV, sampling, **others, slack=slack)
        moved = choose(logits_BV + 0.999 * moved_BV, sampling, **others)
        assert (choice.ids_B == moved.ids_B)[choice.sure_B].all()
        assert (choice.ids_B != moved.ids_B).any(), "the test moves too little to mean anything"
        assert choice.sure_B.float().mean() > 0.05

    def test_hardly_any_choice_is_doubtful_at_the_real_slack(self):
        logits_BV = 4 * torch.randn(4000, 97, generator=torch.Generator().manual_seed(1))
        for sampling in (Sampling(), Sampling(top_k=10), Sampling(top_p=0.9)):
            rows = {"seeds_B": torch.arange(4000), "index_B": torch.zeros(4000, dtype=torch.long)}
            sure_B = choose(logits_BV, sampling, seen_BV=None, **rows, slack=2e-5).sure_B
            assert 0.99 < float(sure_B.float().mean()) <= 1.0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"repetition_penalty": 0.0}, "repetition_penalty=0.0"),
    ],
)
def test_wrong_settings_are_refused_with_the_rule(settings, named):
    with pytest.raises(UsageError, match=named):
        Sampling(**settings)
