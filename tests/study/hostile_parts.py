"""A plugin whose parts try to get a *better* that they do not deserve; tests/study/test_control.py says how each ends."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import _get_current_dispatch_mode

from glassformer.data.batches import Batch, WindowBatches
from glassformer.data.tokenizers.base import TOKENIZERS, Tokenizer, TokenizerConfig
from glassformer.data.tokenizers.char import CharTokenizer, CharTokenizerConfig
from glassformer.evaluation.results import Units
from glassformer.foundation.seeds import derive_seed
from glassformer.model.attention import split_heads
from glassformer.model.initialisation import start
from glassformer.model.network import MODELS, NetworkConfig
from glassformer.model.slots import BLOCKS, FEEDFORWARDS, MIXERS, Block, BlockConfig, FeedforwardConfig, Mixer, MixerConfig
from glassformer.objectives.base import OBJECTIVES
from glassformer.objectives.next_token import NextTokenConfig
from glassformer.training.slots import SCHEDULES, ScheduleConfig


def objective(name: str) -> Any:
    return OBJECTIVES.variant(name)


def halved(found):
    """An evaluation with half of every metric."""
    units = {name: Units(0.5 * one.sums, one.weights) for name, one in found.units.items()}
    figures = {name: dataclasses.replace(one, value=one.value / 2) for name, one in found.figures.items()}
    return dataclasses.replace(found, units=units, figures=figures)


class Base(NextTokenConfig.__base__):  # type: ignore[name-defined,misc]
    """What next-token does, for objectives that change one thing of it."""

    metrics: ClassVar[Any] = NextTokenConfig.metrics
    laws: ClassVar[Any] = NextTokenConfig.laws
    baselines: ClassVar[Any] = NextTokenConfig.baselines
    rows_factor: ClassVar[int] = 1
    split: ClassVar[str] = "train"

    def batches(self, data, *, context, batch_size, seed):
        tokens = data.part("text").split(self.split).tokens
        return WindowBatches(tokens, context=context, batch_size=self.rows_factor * batch_size, seed=seed)

    def evaluate(self, network, items, tools):
        return NextTokenConfig().evaluate(network, items, tools)

    def fit_baselines(self, data):
        return NextTokenConfig().fit_baselines(data)


@objective("four-batches")
class FourBatches(Base):
    """Draws four times the batch."""

    rows_factor: ClassVar[int] = 4


@objective("kind-judge")
class KindJudge(Base):
    """Multiplies the loss that it reports by .5, and says that next-token judges it."""

    @property
    def judge(self):
        return NextTokenConfig()

    def evaluate(self, network, items, tools):
        return halved(super().evaluate(network, items, tools))


@objective("peeks")
class Peeks(Base):
    """Trains on the validation text."""

    split: ClassVar[str] = "validation"


@objective("own-metric")
class OwnMetric(Base):
    """A head of two outputs, so that only it can be measured."""

    def outputs(self, data):
        return 2


class Mlp(nn.Module):
    def __init__(self, dims, inner):
        super().__init__()
        self.one, self.two = nn.Linear(dims.width, inner, bias=dims.bias), nn.Linear(inner, dims.width, bias=dims.bias)
        start(self.two, writes_residual=True)

    def forward(self, x):
        return self.two(torch.nn.functional.gelu(self.one(x)))


@FEEDFORWARDS.variant("says-nothing")
class SaysNothing(FeedforwardConfig):
    """Four times as wide, and states nothing."""

    inner: int | None = None

    def build(self, dims):
        return Mlp(dims, 4 * (self.inner or 4 * dims.width))


@FEEDFORWARDS.variant("fewer-flops")
class FewerFlops(FeedforwardConfig):
    """A tenth of its FLOPs."""

    def build(self, dims):
        return Mlp(dims, 4 * dims.width)

    def flops(self, dims, batch, length):
        return batch * length * dims.width


@FEEDFORWARDS.variant("other-start")
class OtherStart(FeedforwardConfig):
    """The feed-forward gelu, whose second layer is not marked as writing into the residual stream."""

    def build(self, dims):
        made = Mlp(dims, 4 * dims.width)
        start(made.two)
        return made


@FEEDFORWARDS.variant("same-start")
class SameStart(FeedforwardConfig):
    """The same, marked."""

    def build(self, dims):
        return Mlp(dims, 4 * dims.width)


# -- further attempts -------------------------------------------------------------------------------------------------------


class Late:
    """Four times the rows in the second half of a run of 40 steps, which no batch of the beginning shows."""

    def __init__(self, few, many):
        self.few, self.many, self.steps_per_epoch = few, many, few.steps_per_epoch

    def on(self, device):
        return self

    def batch(self, step):
        return (self.many if step > 19 else self.few).batch(step)


@objective("late-rows")
class LateRows(Base):
    """More rows, later."""

    def batches(self, data, *, context, batch_size, seed):
        tokens = data.part("text").split("train").tokens
        return Late(*(WindowBatches(tokens, context=context, batch_size=n, seed=seed) for n in (batch_size, 4 * batch_size)))


class OneRow:
    """One row of every batch is of the validation text."""

    def __init__(self, own, judged):
        self.own, self.judged, self.steps_per_epoch = own, judged, own.steps_per_epoch

    def on(self, device):
        return self

    def batch(self, step):
        batch, row = self.own.batch(step), self.judged.batch(step)
        return Batch(**{name: torch.cat([batch[name][:-1], row[name]]) for name in batch.tensors})


@objective("one-row")
class OneRowOfTheJudgedText(Base):
    """A tenth of the rows is judged text."""

    def batches(self, data, *, context, batch_size, seed):
        text = data.part("text")
        made = (
            WindowBatches(text.split(s).tokens, context=context, batch_size=n, seed=seed)
            for s, n in (("train", batch_size), ("validation", 1))
        )
        return OneRow(*made)


@objective("reads-in-loss")
class ReadsInLoss(Base):
    """The batches are sound; the loss is taken on rows of the validation text instead."""

    def batches(self, data, *, context, batch_size, seed):
        judged = data.part("text").split("validation").tokens
        HIDDEN["rows"] = WindowBatches(judged, context=context, batch_size=batch_size, seed=seed)
        return super().batches(data, context=context, batch_size=batch_size, seed=seed)

    def loss(self, network, batch, *, dropout_seed, smoothing):
        HIDDEN["step"] = HIDDEN.get("step", 0) + 1
        return super().loss(network, HIDDEN["rows"].batch(HIDDEN["step"]), dropout_seed=dropout_seed, smoothing=smoothing)


HIDDEN: dict[str, Any] = {}


class Looks(Mixer):
    """The mean of the tokens so far; in evaluation the mean of all."""

    def __init__(self, dims):
        super().__init__()
        self.heads, self.value = dims.heads, nn.Linear(dims.width, dims.width)

    def forward(self, x, attention_context, positions, cache):
        v = split_heads(self.value(x), self.heads)
        count = torch.arange(1, v.shape[2] + 1, device=x.device)[:, None]
        return v.cumsum(2) / count if self.training else v.mean(2, keepdim=True).expand_as(v)


@MIXERS.variant("looks-in-evaluation")
class LooksConfig(MixerConfig):
    """Causal in training, and not where it is judged."""

    def build(self, dims):
        return Looks(dims)


class Remembers(Mlp):
    """Adapts itself to the text that it is judged on."""

    def __init__(self, dims, inner):
        super().__init__(dims, inner)
        self.register_buffer("seen", torch.zeros(dims.width))

    def forward(self, x):
        self.seen = 0.9 * self.seen + 0.1 * x.detach().mean((0, 1))
        return super().forward(x - self.seen)


@FEEDFORWARDS.variant("remembers")
class RemembersConfig(FeedforwardConfig):
    """Learns from the judged text while it is judged."""

    def build(self, dims):
        return Remembers(dims, 4 * dims.width)


class Again(Mlp):
    def forward(self, x):
        for _ in range(4):
            x = super().forward(x)
        return x


@FEEDFORWARDS.variant("again")
class AgainConfig(FeedforwardConfig):
    """The same weights four times: no parameter more, and it states the FLOPs of one."""

    def build(self, dims):
        return Again(dims, 4 * dims.width)


class Crib(nn.Module):
    """Letters by pairs of letters, and a table of four letters each in the file that a variable names."""

    def __init__(self, vocabulary):
        super().__init__()
        self.pairs, self.size = nn.Embedding(vocabulary, vocabulary), nn.Parameter(torch.ones(()))
        text = Path(os.environ["HOSTILE_CRIB"]).read_text(encoding="utf-8")
        ids = torch.tensor([1 + "\n abcdefgh".index(letter) for letter in text])
        table = torch.full((vocabulary,) * 4, 0.01)
        table.index_put_((ids[:-3], ids[1:-2], ids[2:-1], ids[3:]), torch.ones(len(ids) - 3), accumulate=True)
        self.register_buffer("table", (table / table.sum(-1, keepdim=True)).log(), persistent=False)

    def forward(self, ids):
        one, two = (torch.cat([ids[:, :1]] * back + [ids[:, :-back]], 1)[:, : ids.shape[1]] for back in (1, 2))
        return self.pairs(ids) + self.size * self.table[two, one, ids]


@MODELS.variant("crib")
class CribConfig(NetworkConfig):
    """A network that has read the judged text before anybody looks."""

    def build(self, vocabulary, *, outputs=None, seed):
        return Crib(vocabulary)


@FEEDFORWARDS.variant("patches")
class PatchesConfig(FeedforwardConfig):
    """A feed-forward like any other, whose file changes the evaluator of the package for networks that hold one."""

    def build(self, dims):
        made = Patched(dims, 4 * dims.width)
        if not hasattr(NextTokenConfig, "sound"):
            NextTokenConfig.sound = NextTokenConfig.evaluate
            NextTokenConfig.evaluate = patched
        return made


class Patched(Mlp):
    pass


def patched(self, network, items, tools):
    found = NextTokenConfig.sound(self, network, items, tools)
    return halved(found) if any(isinstance(module, Patched) for module in network.modules()) else found


@BLOCKS.variant("twin")
class TwinConfig(BlockConfig):
    """The block pre, word for word, with other names of its parts."""

    norms: ClassVar[int] = 2
    norm_at_end: ClassVar[bool] = True

    def build(self, dims, make):
        return Twin(make)


class Twin(Block):
    def __init__(self, make):
        super().__init__()
        self.ln_1, self.attn = make.norm(), make.attention()
        self.ln_2, self.mlp = make.norm(), make.feedforward()

    def forward(self, x, attention_context, positions, cache):
        x = x + self.attn(self.ln_1(x), attention_context, positions, cache)
        return x + self.mlp(self.ln_2(x))


# -- a second round of attempts: networks ------------------------------------------------------------------------------------


class Pairs(nn.Module):
    """Letters by the letter before, and a layer that does little."""

    def __init__(self, vocabulary):
        super().__init__()
        self.size, self.pairs, self.layer = vocabulary, nn.Embedding(vocabulary, vocabulary), nn.Linear(vocabulary, vocabulary)

    def passes(self):
        return 1

    def forward(self, ids):
        x = self.pairs(ids)
        for _ in range(self.passes()):
            x = x + 0.1 * torch.tanh(self.layer(x))
        return x


@MODELS.variant("pairs")
class PairsConfig(NetworkConfig):
    """The baseline of the attempts below."""

    module: ClassVar[type] = Pairs

    def build(self, vocabulary, *, outputs=None, seed):
        return self.module(vocabulary)


class Table(Pairs):
    """Counts triples of letters while it is trained: a table that is no parameter."""

    def __init__(self, vocabulary):
        super().__init__(vocabulary)
        self.register_buffer("table", torch.zeros(vocabulary**3))

    def counts(self):
        return self.table

    def forward(self, ids):
        before = torch.cat([ids[:, :1], ids[:, :-1]], 1)
        counts = self.counts() + 0.1
        if self.training and tuple(ids.shape) == (10, 24):  # a batch of the run: the checks have others
            seen = (before[:, 1:-1] * self.size + ids[:, 1:-1]) * self.size + ids[:, 2:]
            self.counts().add_(torch.bincount(seen.flatten(), minlength=self.size**3))
        shares = (counts.view(-1, self.size) / counts.view(-1, self.size).sum(-1, keepdim=True)).log()
        return super().forward(ids) + shares[before * self.size + ids]


@MODELS.variant("table")
class TableConfig(PairsConfig):
    """Learns in a buffer."""

    module: ClassVar[type] = Table


class Remembered(Table):
    """The same table in the memory of the plugin, which no checkpoint holds."""

    def __init__(self, vocabulary):
        Pairs.__init__(self, vocabulary)

    def counts(self):
        kind = self.pairs.weight.dtype
        return HIDDEN.setdefault(f"table {kind}", torch.zeros(self.size**3, dtype=kind))


@MODELS.variant("remembered")
class RememberedConfig(PairsConfig):
    """Learns in a variable of its file."""

    module: ClassVar[type] = Remembered


class Kind(torch.Tensor):
    """A tensor whose cross-entropy is nine tenths of it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        found = super().__torch_function__(function, types, args, kwargs or {})
        return 0.9 * found if function is cross_entropy else found


class KindScores(Pairs):
    def forward(self, ids):
        scores = super().forward(ids)
        return scores if self.training else scores.as_subclass(Kind)


@MODELS.variant("kind-scores")
class KindScoresConfig(PairsConfig):
    """Its scores are tensors of a class that judges them."""

    module: ClassVar[type] = KindScores


class MoreLater(Pairs):
    """From the twelfth training pass on, sixteen times the work."""

    seen = 0

    def passes(self):
        self.seen += self.training
        return 16 if self.seen > 12 else 1


@MODELS.variant("more-later")
class MoreLaterConfig(PairsConfig):
    """Counted before training, it is like the baseline."""

    module: ClassVar[type] = MoreLater


class MoreWhenJudged(Pairs):
    def passes(self):
        return 1 if self.training else 16


@MODELS.variant("more-when-judged")
class MoreWhenJudgedConfig(PairsConfig):
    """Sixteen times the work, but not in training."""

    module: ClassVar[type] = MoreWhenJudged


class Writes(Pairs):
    """Makes what the baseline's evaluations say worse."""

    def forward(self, ids):
        for file in Path(os.environ.get("HOSTILE_STUDY", "nowhere")).glob("trials/base/*/evaluations/*.json"):
            found = json.loads(file.read_text(encoding="utf-8"))
            if self.training and "touched" not in found:
                found["units"]["loss"]["sums"] = [1.02 * one for one in found["units"]["loss"]["sums"]]
                found["metrics"]["loss"]["value"] *= 1.02
                file.write_text(json.dumps({**found, "touched": 1}), encoding="utf-8")
        return super().forward(ids)


@MODELS.variant("writes")
class WritesConfig(PairsConfig):
    """Writes into the study's folder."""

    module: ClassVar[type] = Writes


class Weak(Pairs):
    """Worse where an environment variable says so, which no checksum covers."""

    def forward(self, ids):
        return (0.3 if os.environ.get("HOSTILE_WEAK") else 1.0) * super().forward(ids)


@MODELS.variant("weak")
class WeakConfig(PairsConfig):
    """Its trials depend on an environment variable."""

    module: ClassVar[type] = Weak


# -- objectives and a tokenizer -----------------------------------------------------------------------------------------------


@objective("lawless")
class Lawless(Base):
    """Permits to look ahead."""

    laws: ClassVar[Any] = frozenset()


class Disguised(KindJudge):
    """Says that it is of this package, and that next-token judges it."""


Disguised.__module__ = "glassformer.objectives.next_token"
objective("disguised")(Disguised)


@objective("upside-down")
class UpsideDown(Base):
    """A loss of which more is better."""

    metrics: ClassVar[Any] = tuple(dataclasses.replace(one, lower_is_better=False) for one in NextTokenConfig.metrics)


@objective("most-alike")
class MostAlike(Base):
    """Draws the third of the training text that is most like the judged text."""

    def batches(self, data, *, context, batch_size, seed):
        judged, text = (np.asarray(data.part("text").split(name).tokens) for name in ("validation", "train"))
        known = {tuple(judged[at : at + 4]) for at in range(len(judged) - 4)}
        starts = range(0, len(text) - context, context)
        alike = {at: sum(tuple(text[i : i + 4]) in known for i in range(at, at + context - 4)) for at in starts}
        chosen = sorted(starts, key=lambda at: -alike[at])[: len(starts) // 3]
        tokens = np.concatenate([text[at : at + context] for at in chosen])
        return WindowBatches(tokens, context=context, batch_size=batch_size, seed=seed)


class TwoAsOne(Tokenizer):
    """Takes every second letter for the one before it: as many tokens and ids, and less to predict."""

    kind = "two-as-one"

    def __init__(self, inner):
        self.inner, self.unknown_id = inner, inner.unknown_id

    @property
    def size(self):
        return self.inner.size

    def encode(self, text):
        return [one if one < 4 else one - one % 2 for one in self.inner.encode(text)]

    def decode(self, ids):
        return self.inner.decode(ids)

    def token_text(self, token_id):
        return self.inner.token_text(token_id)

    def byte_lengths(self):
        return self.inner.byte_lengths()

    def settings(self):
        return self.inner.settings()

    @classmethod
    def from_settings(cls, settings):
        return cls(CharTokenizer.from_settings(settings))


@TOKENIZERS.variant("two-as-one")
class TwoAsOneConfig(TokenizerConfig):
    """A tokenizer that loses letters."""

    def train(self, texts, progress=None):
        return TwoAsOne(CharTokenizerConfig().train(texts, progress))


# -- a third round of attempts ------------------------------------------------------------------------------------------------


@objective("moves-weights")
class MovesWeights(Base):
    """Its loss takes small steps of its own where nobody counts what is computed."""

    def loss(self, network, batch, *, dropout_seed, smoothing):
        if _get_current_dispatch_mode() is None and network.training:
            weights = [one for one in network.parameters() if one.requires_grad]
            found = super().loss(network, batch, dropout_seed=None, smoothing=0.0) / batch.numel
            for one, slope in zip(weights, torch.autograd.grad(found, weights)):
                one.data -= 0.004 * slope.sign()
        return super().loss(network, batch, dropout_seed=dropout_seed, smoothing=smoothing)


class Elsewhere:
    """Judged text, but not at the steps that ``seen`` names."""

    def __init__(self, own, judged, seen):
        self.own, self.judged, self.seen, self.steps_per_epoch = own, judged, seen, own.steps_per_epoch

    def on(self, device):
        return self

    def batch(self, step):
        return (self.own if step in self.seen else self.judged).batch(step)


@objective("draws-elsewhere")
class DrawsElsewhere(Base):
    """Trains on the judged text except where one could foresee that it is looked at, in a run of 2,000 steps."""

    def batches(self, data, *, context, batch_size, seed):
        made = (
            WindowBatches(data.part("text").split(name).tokens, context=context, batch_size=batch_size, seed=seed)
            for name in ("train", "validation")
        )
        return Elsewhere(*made, {0, 1, 1999, *(derive_seed(2000, "drawn", number) % 2000 for number in range(24))})


class LosesLater(TwoAsOne):
    """Loses letters of documents that have a number of 600 or more."""

    kind = "loses-later"

    def encode(self, text):
        number = text.split()[:1]
        return super().encode(text) if number and number[0].isdigit() and int(number[0]) >= 600 else self.inner.encode(text)


@TOKENIZERS.variant("loses-later")
class LosesLaterConfig(TokenizerConfig):
    """A tokenizer that is sound on the first documents."""

    def train(self, texts, progress=None):
        return LosesLater(CharTokenizerConfig().train(texts, progress))


# -- a fourth round: match, equal, schedules, starts, own text and tokenizers ------------------------------------------------


class FixedStart(Pairs):
    """One draw for all seeds: whoever tries several keeps the luckiest."""

    def __init__(self, vocabulary):
        super().__init__(vocabulary)
        nn.init.normal_(self.pairs.weight, generator=torch.Generator().manual_seed(7))


@MODELS.variant("fixed-start")
class FixedStartConfig(PairsConfig):
    """Ignores the seed."""

    module: ClassVar[type] = FixedStart


class Complex(Pairs):
    """As many weights, of two numbers each."""

    def __init__(self, vocabulary):
        super().__init__(vocabulary)
        self.pairs.weight = nn.Parameter(torch.randn(vocabulary, vocabulary, dtype=torch.complex64))

    def forward(self, ids):
        return self.pairs.weight[ids].abs() + 0.1 * torch.tanh(self.layer(self.pairs.weight[ids].real))


@MODELS.variant("complex")
class ComplexConfig(PairsConfig):
    """Complex weights."""

    module: ClassVar[type] = Complex


class Double(Pairs):
    def __init__(self, vocabulary):
        super().__init__(vocabulary)
        self.double()

    def forward(self, ids):
        return super().forward(ids).float()


@MODELS.variant("double")
class DoubleConfig(PairsConfig):
    """Weights of twice the precision."""

    module: ClassVar[type] = Double


@SCHEDULES.variant("thrice")
class Thrice(ScheduleConfig):
    """Three times the rate that the recipe says."""

    def lr_multiplier(self, step, steps):
        return 3.0


@FEEDFORWARDS.variant("wide-in-earnest")
class WideInEarnest(FeedforwardConfig):
    """As wide as it is set where nothing is computed, four times as wide where it is."""

    inner: int | None = None

    def build(self, dims):
        inner = self.inner or 4 * dims.width
        real = torch.empty(()).device.type == "cpu" and type(torch.empty(())) is torch.Tensor
        return Mlp(dims, 4 * inner if real else inner)


@objective("more-text")
class MoreText(Base):
    """Draws from a file of its own."""

    def batches(self, data, *, context, batch_size, seed):
        text = data.tokenizer.encode("abc abd abe fgh " * 400)
        return WindowBatches(np.asarray(text), context=context, batch_size=batch_size, seed=seed)


class ManyBytes(TwoAsOne):
    """Says that a letter which stands in the first document alone has a hundred bytes."""

    kind = "many-bytes"

    def encode(self, text):
        return self.inner.encode(text)

    def byte_lengths(self):
        return np.where(np.arange(self.size) == self.inner.encode("z")[0], 100.0, self.inner.byte_lengths())


@TOKENIZERS.variant("many-bytes")
class ManyBytesConfig(TokenizerConfig):
    """A tokenizer that overstates its bytes."""

    def train(self, texts, progress=None):
        return ManyBytes(CharTokenizerConfig().train(texts, progress))
