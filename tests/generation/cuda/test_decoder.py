"""The fast way of writing is the definition: whatever the batch, the stride, the doubts and the places rows move to."""

from __future__ import annotations

import gc
import itertools
import random
from weakref import ref

import pytest
import torch

from glassformer.foundation.errors import Diverged
from glassformer.generation.cuda import decoder as decode
from glassformer.generation.cuda.decoder import (
    CAUTION,
    COMPARED,
    SLACK,
    Decoder,
    decoder_for,
    keep,
    rounds_as_float32,
)
from glassformer.generation.cuda.graphs import WARM_UP
from glassformer.generation.reference import next_scores, next_token
from glassformer.generation.sampling import Sampling
from glassformer.generation.sequence import TokenSequence
from glassformer.model.config import ModelConfig
from glassformer.model.kv_cache import ModelCache
from glassformer.model.transformer import Transformer, build_model

VOCABULARY, CONTEXT = 23, 18
SAMPLINGS = [Sampling(temperature=0), Sampling(), Sampling(temperature=0.8, top_k=7, top_p=0.9, repetition_penalty=1.2)]


@pytest.fixture(scope="module")
def model(loud_model) -> Transformer:
    return loud_model(VOCABULARY, width=24, heads=3, context=CONTEXT)


def make_sequences(number: int, *, new: int = 30, **rules) -> list[TokenSequence]:
    chance = random.Random(5)
    lengths = [1 + (7 * row) % (2 * CONTEXT) for row in range(number)]
    prompts = [[chance.randrange(VOCABULARY) for _ in range(length)] for length in lengths]
    return [
        TokenSequence(row=row, ids=prompt, seed=100 + row, context=CONTEXT, max_new_tokens=new + row, **rules)
        for row, prompt in enumerate(prompts)
    ]


def generate_by_reference(model: Transformer, sequences: list[TokenSequence], sampling: Sampling) -> list[list[int]]:
    for sequence in sequences:
        while sequence.reason is None:
            sequence.accept(next_token(model, sequence, sampling))
    return [sequence.new_ids for sequence in sequences]


def write(model: Transformer, sequences: list[TokenSequence], sampling: Sampling, **settings) -> list[list[int]]:
    Decoder(model, sampling, **({"rows": 4, "capacity": CONTEXT} | settings)).write(iter(sequences))
    return [sequence.new_ids for sequence in sequences]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize(("rows", "stride"), [(1, 1), (4, 1), (4, 7), (11, 5)])
def test_writes_what_the_definition_writes(model, sampling, rows, stride):
    expected = generate_by_reference(model, make_sequences(11), sampling)
    assert write(model, make_sequences(11), sampling, rows=rows, stride=stride) == expected
    assert len({tuple(new) for new in expected}) == 11  # no two sequences alike, or the test could not see a swap


@pytest.mark.parametrize("stride", [1, 6])
def test_texts_that_end_early_leave_and_others_take_their_place(model, stride):
    rules = {"stop_ids": {3}, "stop": lambda row, new: row % 3 == 0 and len(new) == 9}
    expected, sequences = make_sequences(11, **rules), make_sequences(11, **rules)
    generate_by_reference(model, expected, Sampling())
    write(model, sequences, Sampling(), rows=5, stride=stride)
    assert [(sequence.new_ids, sequence.reason) for sequence in sequences] == [
        (sequence.new_ids, sequence.reason) for sequence in expected
    ]
    assert {sequence.reason for sequence in sequences} == {"length", "stop id", "stop"}


def test_recorded_steps_keep_rows_until_half_have_ended_and_few_lengths(model, monkeypatch):
    """The rules for recordings, with the step itself in the place of its recording."""
    shapes = []

    class Run:
        def __init__(self, step, state, together):
            self.step = step

        def __call__(self, rows, length, steps):
            shapes.append((rows, length))
            for _ in range(steps):
                self.step()(rows, length)

    monkeypatch.setattr(decode, "CUDAGraphSteps", Run)
    monkeypatch.setattr(decode, "can_capture", lambda model: True)
    monkeypatch.setattr(decode, "LENGTH_UNIT", 8)
    rules = {"stop": lambda row, new: len(new) == 5 * row + 2}
    expected = generate_by_reference(model, make_sequences(8, **rules), Sampling())
    assert write(model, make_sequences(8, **rules), Sampling(), rows=8, stride=6) == expected
    sizes = sorted({rows for rows, _ in shapes})
    assert sizes[-1] == 8
    assert len(sizes) > 2
    assert all(2 * small <= large for small, large in itertools.pairwise(sizes))
    assert {length for _, length in shapes} == {16, CONTEXT}


@pytest.mark.parametrize("stride", [1, 6])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_doubtful_tokens_are_decided_by_the_definition(model, monkeypatch, stride, sampling):
    """With a slack so large that many choices are recompute, rows are often taken back; the sequences stay the same."""
    expected = generate_by_reference(model, make_sequences(5), sampling)
    asked = []
    monkeypatch.setattr(decode, "SLACK", 0.02)
    monkeypatch.setattr(decode, "next_scores", lambda *arguments: asked.append(1) or next_scores(*arguments))
    assert write(model, make_sequences(5), sampling, stride=stride) == expected
    assert len(asked) > 5 + COMPARED  # those that came with reading, and recompute ones


def test_equal_scores_are_decided_by_the_definition(model):
    """Two tokens with the same vector always tie: no rounding may decide between them."""
    twins = build_model(ModelConfig(width=24, layers=1, heads=3, context=CONTEXT), VOCABULARY, seed=2).eval()
    with torch.no_grad():
        twins.embedding.weight[4] = twins.embedding.weight[9] = 3 * twins.embedding.weight[4]
    for sampling in SAMPLINGS:
        expected = generate_by_reference(twins, make_sequences(6, new=9), sampling)
        assert write(twins, make_sequences(6, new=9), sampling, stride=4) == expected


def test_the_memory_never_holds_more_than_it_must(model):
    sequences = make_sequences(3, new=2)[:1]
    assert write(model, sequences, Sampling(), rows=1, capacity=3) == generate_by_reference(
        model, make_sequences(3, new=2)[:1], Sampling()
    )


def test_scores_that_are_no_numbers_end_with_a_sentence(model):
    broken = build_model(ModelConfig(width=12, layers=1, heads=2, context=CONTEXT), VOCABULARY, seed=1)
    with torch.no_grad():
        broken.embedding.weight[:] = float("nan")
    for sampling in SAMPLINGS:
        with pytest.raises(Diverged, match="not finite"):
            write(broken, make_sequences(2), sampling)


def test_exactness_is_promised_for_float32_only(model):
    assert rounds_as_float32(model)
    assert rounds_as_float32(build_model(ModelConfig(width=4, heads=1), 5, seed=1).double())
    assert not rounds_as_float32(build_model(ModelConfig(width=4, heads=1), 5, seed=1).bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not rounds_as_float32(model)


def test_reading_alone_is_the_definition_to_the_bit(model):
    for sequence in make_sequences(6):
        cache = ModelCache(layers=2, capacity=CONTEXT, rows=3)
        cache.place_whole(torch.tensor([1]))
        assert torch.equal(next_scores(model, sequence, cache), next_scores(model, sequence))


def test_the_slack_follows_the_difference_that_is_seen(model):
    decoder = Decoder(model, Sampling(), rows=2, capacity=CONTEXT)
    assert float(decoder.slack) == pytest.approx(SLACK)
    decoder._learn_rounding(torch.tensor([[1.0, -4.0]]), torch.tensor([1.0, -4.0 + 4e-7]))
    assert float(decoder.slack) == pytest.approx(SLACK)
    decoder._learn_rounding(torch.tensor([[1.0, -4.0]]), torch.tensor([1.001, -4.0]))
    assert float(decoder.slack) == pytest.approx(CAUTION * 0.001 / 4, rel=1e-3)
    decoder._learn_rounding(torch.tensor([[1.0, -4.0]]), torch.tensor([1.0, -4.0]))
    assert float(decoder.slack) == pytest.approx(CAUTION * 0.001 / 4, rel=1e-3)


@pytest.mark.parametrize("merge", ["reweight", "reweight_sequence"])
def test_a_model_whose_memory_cannot_be_right_is_written_by_the_definition(loud_model, merge):
    """Such a merge looks at the whole sequence, so a step with a cache gives something else: the comparison notices."""
    leaky = loud_model(VOCABULARY, seed=4, width=24, heads=3, context=CONTEXT, merge=merge)
    expected = generate_by_reference(leaky, make_sequences(4, new=9), Sampling())
    assert write(leaky, make_sequences(4, new=9), Sampling(), stride=5) == expected


class PlainRecording:
    """Stands for recordings where there is no GPU: steps are simply taken."""

    def __init__(self, step, state, together) -> None:
        self.step = step

    def __call__(self, rows: int, length: int, steps: int) -> None:
        for _ in range(steps):
            self.step()(rows, length)


@pytest.fixture
def recording(monkeypatch):
    """As on a GPU: steps are graphs, and the model's decoder is kept."""
    monkeypatch.setattr(decode, "can_capture", lambda model: True)
    monkeypatch.setattr(decode, "CUDAGraphSteps", PlainRecording)
    kept = type(decode._KEPT)()
    monkeypatch.setattr(decode, "_KEPT", kept)
    return kept


def test_a_model_keeps_its_last_decoder_and_writes_the_same_with_it(model, recording):
    settings = {"rows": 4, "capacity": CONTEXT, "stride": 5}
    sampling = SAMPLINGS[2]
    expected = generate_by_reference(model, make_sequences(11), sampling)
    first = decoder_for(model, sampling, **settings)
    for stride in (5, 3):
        keep(first)
        again = decoder_for(model, sampling, **settings | {"stride": stride})
        assert again is first
        sequences = make_sequences(11)
        again.write(iter(sequences))
        assert [sequence.new_ids for sequence in sequences] == expected
    for other in ({"rows": 3}, {"capacity": CONTEXT - 1}):
        keep(first)
        assert decoder_for(model, sampling, **settings | other) is not first
    keep(first)
    assert decoder_for(model, Sampling(), **settings) is not first


@pytest.fixture
def long_runs(monkeypatch):
    """As in bf16: only scores that are no numbers are recompute. Runs of four steps and more are looked at in two pieces."""
    monkeypatch.setattr(decode, "rounds_as_float32", lambda model: False)
    monkeypatch.setattr(decode, "LATE_STEPS", 2)


def sequences_of_one_length(number: int) -> list[TokenSequence]:
    return [
        TokenSequence(row=row, ids=[row, row + 1], seed=7 + row, context=CONTEXT, max_new_tokens=45 + row % 2)
        for row in range(number)
    ]


def test_the_host_looks_at_ids_while_the_device_takes_the_next_steps(model, long_runs, monkeypatch):
    """Room for 17, then 9, 9, 9 ids, and one or two more: the steps of a window are taken before the ids of the window before
    are looked at, which are told in two pieces, and after the last id that all rows need no further window is begun."""
    heard, step, accept, read = [], Decoder._step, Decoder._accept, Decoder._read_windows
    monkeypatch.setattr(Decoder, "_step", lambda self, *shape: (heard.append("step"), step(self, *shape)))
    monkeypatch.setattr(Decoder, "_accept", lambda self, tokens: (heard.append(tokens.shape[1]), accept(self, tokens)))
    monkeypatch.setattr(Decoder, "_read_windows", lambda self, *ids: (heard.append("read"), read(self, *ids)))
    expected = generate_by_reference(model, sequences_of_one_length(3), Sampling())
    assert write(model, sequences_of_one_length(3), Sampling(), rows=3, stride=CONTEXT) == expected
    window = ["read"] + ["step"] * 9
    first = ["read"] + ["step"] * 17 + window + [15, 2] + window + [7, 2] + window + [7, 2]
    assert heard[: len(first)] == first
    assert heard[len(first) :] == ["read", "step", 7, 2, 1, "step", 1]


def test_windows_that_move_on_together_are_read_in_passes_that_fit(model, long_runs, monkeypatch):
    monkeypatch.setattr(decode, "READ_TOKENS", {"cpu": 2 * (CONTEXT // 2)})
    read, passes = Decoder._read_windows, []
    monkeypatch.setattr(Decoder, "_read_windows", lambda self, rows, ids: (passes.append(ids.shape), read(self, rows, ids)))
    expected = generate_by_reference(model, sequences_of_one_length(5), Sampling())
    assert write(model, sequences_of_one_length(5), Sampling(), rows=5, stride=CONTEXT) == expected
    moved = [shape for shape in passes if shape[1] == CONTEXT // 2]
    assert moved[:3] == [(2, 9), (2, 9), (1, 9)]
    assert all(0 < rows * length <= 18 for rows, length in passes)


@pytest.mark.parametrize("context", [1, 2, 3, CONTEXT - 1, CONTEXT])
@pytest.mark.parametrize("prompt", [1, 5, CONTEXT])
def test_windows_of_every_kind_move_on_together(long_runs, context, prompt):
    """Where a window is not all in what the device has just written, the host says what it is."""
    model = build_model(ModelConfig(width=12, layers=1, heads=3, context=context), VOCABULARY, seed=1).eval()

    def sequences() -> list[TokenSequence]:
        ids = [[(3 * row + at) % VOCABULARY for at in range(prompt)] for row in range(3)]
        return [TokenSequence(row=row, ids=ids[row], seed=row, context=context, max_new_tokens=40) for row in range(3)]

    expected = generate_by_reference(model, sequences(), Sampling())
    assert write(model, sequences(), Sampling(), rows=3, stride=CONTEXT) == expected


@pytest.mark.parametrize("doubts", [[5], [5, 16], [16], [2, 25], [17, 26], [30, 44]])
def test_a_row_that_went_another_way_is_not_heard_until_it_is_in_step(model, long_runs, monkeypatch, doubts):
    """Row 1 is recompute at those of its ids, whether in the piece that is looked at early or late; what it says next is
    wrong, and the rest of the run follows from it."""
    choose_all = Decoder._choose

    def doubt(self, rows):
        choose_all(self, rows)
        index, first = int(self.index_B[1]) - 1, int(self.first_B[1])
        if index in doubts and rows > 1:
            self.output_tokens_BN[1, index - first] = decode.NEEDS_RECOMPUTATION
            self.last_B[1] = (self.last_B[1] + 1) % VOCABULARY

    monkeypatch.setattr(Decoder, "_choose", doubt)
    expected = generate_by_reference(model, sequences_of_one_length(3), Sampling())
    assert write(model, sequences_of_one_length(3), Sampling(), rows=3, stride=CONTEXT) == expected


def test_rows_that_stay_where_they_are_are_not_copied(model, monkeypatch):
    moved = []
    monkeypatch.setattr(ModelCache, "keep_rows", lambda self, rows: moved.append(rows.tolist()))
    write(model, make_sequences(2, new=4)[:1], Sampling(), rows=3)
    assert moved == []


def test_who_takes_the_decoder_has_it_alone(model, recording):
    """A sequence written while another is being written (from a callback, or another thread) gets one of its own."""
    settings = {"rows": 2, "capacity": CONTEXT, "stride": 1}
    keep(decoder_for(model, Sampling(), **settings))
    first = decoder_for(model, Sampling(), **settings)
    assert decoder_for(model, Sampling(), **settings) is not first


@pytest.mark.parametrize("change", ["weight", "buffer", "module", "inference"])
def test_another_model_inside_gets_another_decoder(recording, change: str):
    mine = build_model(ModelConfig(width=24, heads=3, context=CONTEXT, positions="rotary"), VOCABULARY, seed=2).eval()
    settings = {"rows": 2, "capacity": CONTEXT, "stride": 1}
    first = decoder_for(mine, Sampling(), **settings)
    keep(first)
    if change == "weight":
        mine.final_norm.weight = torch.nn.Parameter(2 * mine.final_norm.weight.detach())  # a recording reads the old one
    elif change == "buffer":
        name = next(name for name, _ in mine.positions.named_buffers())
        setattr(mine.positions, name, getattr(mine.positions, name).clone())
    elif change == "module":
        mine.blocks[0].feedforward.activation = torch.nn.Tanh()
    with torch.inference_mode(change == "inference"):
        assert decoder_for(mine, Sampling(), **settings) is not first


def test_what_is_large_or_made_under_autocast_is_not_kept(model, recording, monkeypatch):
    settings = {"rows": 2, "capacity": CONTEXT, "stride": 1}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        keep(decoder_for(model, Sampling(), **settings))
    assert len(recording) == 0
    monkeypatch.setattr(decode, "KEPT_BYTES", 1)
    keep(decoder_for(model, Sampling(), **settings))
    assert len(recording) == 0


def test_nothing_keeps_a_model_or_its_memory_alive(recording):
    mine = build_model(ModelConfig(width=24, heads=3, context=CONTEXT), VOCABULARY, seed=2).eval().requires_grad_(False)
    gc.disable()  # freed at once, without the collector of rings
    try:
        decoder = decoder_for(mine, Sampling(), rows=2, capacity=CONTEXT, stride=1)
        decoder.write(iter(make_sequences(2, new=3)))
        buffer = ref(decoder.cache.layers[0]._buffers["key"])
        keep(decoder)
        del decoder
        assert len(recording) == 1
        decoder_for(mine, Sampling(), rows=1, capacity=CONTEXT, stride=1)
        assert buffer() is None
    finally:
        gc.enable()
    del mine
    gc.collect()
    assert len(recording) == 0


@pytest.mark.parametrize("context", [1, 4])
def test_steps_taken_while_the_last_one_is_recorded_have_room(context):
    model = build_model(ModelConfig(width=12, layers=1, heads=3, context=context), VOCABULARY, seed=1).eval()
    decoder = Decoder(model, Sampling(), rows=2, capacity=context)
    steps = context - 1 + WARM_UP
    with torch.no_grad():
        for _ in range(steps):
            decoder._step(2, context)
    assert decoder.index_B.tolist() == [steps, steps]
