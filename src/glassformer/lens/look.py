"""A network and a text -> a Look: tokens, attention, the logit lens, losses, head scores; draws itself.

look = run.look("the cat sat on the mat")
look.attention[1, 3]        # layer 1, head 3: [query, key]
look.at("blocks.0.middle")  # any place by its name
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.foundation.errors import BadArgument, UsageError
from glassformer.lens import head_statistics
from glassformer.lens.capture import Places, capture, hidden_mask, quiet
from glassformer.lens.head_statistics import HeadScores, head_scores
from glassformer.lens.interventions import HeadEffects, ablated, head_effects, patched, patching_effects, require_head
from glassformer.lens.logit_lens import LogitLens, logit_lens, token_losses
from glassformer.model.config import ModelConfig
from glassformer.model.network import Network
from glassformer.model.own_network import OwnNetwork
from glassformer.model.tap import STREAM

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from glassformer.data.tokenizers.base import Tokenizer


@final
class Look:
    """One text in one network. One forward pass is made at construction; ``at`` and the scores make further ones."""

    def __init__(
        self,
        network: Network,
        tokenizer: Tokenizer,
        ids: Sequence[int],
        *,
        hide: Sequence[int] = (),
        name: str = "",
        labels: Sequence[str] = (),
        source: Sequence[str] | None = None,
        end_id: int | None = None,
        pad: int | None = None,
    ) -> None:
        """``source``: the tokens of the source, of a network that is given one: the maps are those of attention to it, and a
        row is named by the token that is written there, the last by the end (``end_id``). ``pad``: the number of tokens up
        to which padding is added, which no query attends to."""
        dims = network.dims
        if not ids:
            raise UsageError("The text is empty, so there is nothing to look at; give at least one token.", reason="no-text")
        if len(ids) > dims.context:
            raise UsageError(
                f"The text has {len(ids)} tokens, but model.context={dims.context}; give a shorter one.", reason="text-too-long"
            )
        self.padding = max(0, (pad or 0) - len(ids))
        if self.padding:
            if len(ids) + self.padding > dims.context:
                raise BadArgument("pad", pad, f"the model reads at most model.context={dims.context} tokens; give fewer")
            filler = tokenizer.pad_id if tokenizer.pad_id is not None else 0  # masked for every query, so any id will do
            hide = [*hide, *range(len(ids), len(ids) + self.padding)]
            ids = [*ids, *[filler] * self.padding]
        wrong = [position for position in hide if not 0 <= position < len(ids)]
        if wrong:
            raise BadArgument("hide", wrong[0], f"this text has the positions 0 to {len(ids) - 1}; give one of them")
        if hide and "anywhere" not in network.hides:
            raise BadArgument("hide", hide[0], "this network cannot be told to ignore a token; leave it out")
        self.name = f"step {name}" if name.isdigit() else name
        self.network, self.tokenizer, self.ids, self.hidden = network, tokenizer, list(ids), sorted(set(hide))
        self.labels = tuple(labels)
        self.source, self._end_id = source, end_id
        self.places = Places(network, cross=source is not None)
        self._ids_BT = torch.tensor([self.ids], device=next(network.parameters()).device)
        names = [place for place in (*self.places.patterns, *self.places.streams) if place is not None]
        self._found = capture(self.places, self._ids_BT, names, hidden_BS=self._mask())
        self.tokens = [tokenizer.token_text(token) if token < tokenizer.size else f"#{token}" for token in self.ids]
        self.tokens[len(ids) - self.padding :] = ["[pad]"] * self.padding
        virtual = getattr(getattr(network, "reader", None), "virtual", 0)
        self.queries = [*(f"[prompt {number}]" for number in range(virtual)), *self.tokens]
        if source is not None and end_id is not None:
            self.queries = [*self.tokens[1:], tokenizer.token_text(end_id)]

    def _mask(self) -> Tensor | None:
        return hidden_mask(self._ids_BT, self.hidden)

    @property
    def no_attention(self) -> str | None:
        """Why there are no attention maps, as a sentence, or None."""
        missing = [layer for layer, name in enumerate(self.places.patterns) if name is None]
        if not missing and self.places.patterns:
            return None
        config, what = getattr(self.network, "config", None), type(self.network).__name__
        if isinstance(config, ModelConfig):
            what = f"model.mixer={config.of_layer(missing[0] if missing else 0).mixer.kind}"
        elif isinstance(self.network, OwnNetwork):
            what = f"model.kind={self.network.config.kind}"
        there = "losses and the logit lens" if self.places.streams else "losses, gradients and the outputs of its modules"
        return (
            f"{what} forms no attention pattern{f' in layer {missing[0]}' if missing else ''}, so there is no map to show; "
            f"{there} are there."
        )

    @cached_property
    def attention(self) -> np.ndarray:
        """Weights [layer, head, query, key]."""
        if self.no_attention:
            raise UsageError(self.no_attention, reason="no-attention")
        patterns = [self._found.values[name][0].float().cpu().numpy() for name in self.places.patterns if name]
        return np.stack(patterns)

    @property
    def keys(self) -> list[str]:
        """Labels of the keys: the tokens, after those of a prefix if there is one."""
        if self.source is not None:
            return list(self.source)
        before = self.attention.shape[-1] - len(self.queries)
        return [*(f"[prefix {number}]" for number in range(before)), *self.queries]

    @cached_property
    def faults(self) -> list[str]:
        """Faults of the maps; empty if each row sums to one, where the mixer averages, and no masked key has weight."""
        queries, keys = self.attention.shape[-2:]
        averages = [getattr(self.places[name].module, "averages", True) for name in self.places.patterns if name]
        if self.source is not None:
            return head_statistics.check_rows(self.attention, np.ones((queries, keys), bool), averages)
        hidden = np.zeros(keys, bool)
        hidden[[keys - len(self.ids) + position for position in self.hidden]] = True
        visible = head_statistics.visible_keys(queries, keys, causal=self.network.dims.causal, hidden=hidden)
        return head_statistics.check_rows(self.attention, visible, averages)

    def at(self, name: str) -> np.ndarray:
        """The activation at a place, without the batch axis. ``places`` lists the places with their axes."""
        known = self._found.values.get(name)
        value = known if known is not None else capture(self.places, self._ids_BT, [name], hidden_BS=self._mask()).values[name]
        return value[0].float().cpu().numpy()

    @property
    def scores(self) -> np.ndarray:
        """The logits: [position, token], or one per label."""
        return self._found.scores[0].float().cpu().numpy()

    def output_name(self, number: int) -> str:
        """The name of an output: a token, or a label."""
        if self.network.dims.outputs is not None:
            return self.labels[number] if number < len(self.labels) else f"label {number}"
        return self.tokenizer.token_text(number) if number < self.tokenizer.size else f"#{number}"

    @cached_property
    def logit_lens(self) -> LogitLens | None:
        """The logit lens; None if there is no hook point on the residual stream."""
        if not self.places.streams:
            return None
        streams = {name: self._found.values[name] for name in self.places.streams}
        return logit_lens(self.network, streams, self._mask())

    @property
    def losses(self) -> np.ndarray | None:
        """The loss of each token in nats (NaN for the first); None if the network predicts no next token.

        Where rows are named by what is written there, the loss of that."""
        dims = self.network.dims
        if self.source is not None and self._end_id is not None:
            following = torch.tensor([*self.ids, self._end_id])
            scores = torch.nn.functional.pad(self._found.scores[0].cpu(), (0, 0, 0, 1))
            return token_losses(scores, following)[1:]
        if not dims.causal or dims.outputs is not None or self._found.scores.dim() != 3:
            return None
        return token_losses(self._found.scores[0].cpu(), torch.tensor(self.ids))

    @cached_property
    def gradients(self) -> np.ndarray | None:
        """Of the summed loss of this text: the length of its gradient at the vector of each token. Which tokens move it.

        None if the network predicts no next token, or has no table of token vectors.
        """
        table = getattr(self.network, "embedding", None)
        if self.losses is None or len(self.ids) < 2 or not isinstance(table, nn.Module):
            return None
        found: list[Tensor] = []

        def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor | None:
            if output.shape[:2] != self._ids_BT.shape or not torch.equal(inputs[0], self._ids_BT):
                return None
            found.append(output.detach().requires_grad_())
            return found[-1].clone()  # a leaf may not be written into

        handle = table.register_forward_hook(hook)
        try:
            with quiet(self.network), torch.enable_grad():
                scores_TV = self.network(self._ids_BT, key_padding_mask_BS=self._mask())[0, :-1].double()
                loss = F.cross_entropy(scores_TV, self._ids_BT[0, 1:], reduction="sum")
                gradients = torch.autograd.grad(loss, found, allow_unused=True) if found else ()
        finally:
            handle.remove()
        sizes = [gradient[0].norm(dim=-1).cpu().numpy() for gradient in gradients if gradient is not None]
        return np.sum(sizes, axis=0) if sizes else None

    @cached_property
    def sizes(self) -> dict[str, np.ndarray]:
        """The root mean square of what each place gives, by position: of the places that give a vector per position."""
        names = [name for name, place in self.places.by_name.items() if place.axes == tuple(STREAM.split())]
        values = capture(self.places, self._ids_BT, names, hidden_BS=self._mask()).values
        vectors = {name: value[0] for name, value in values.items() if value.ndim == 3 and value.shape[1] == len(self.ids)}
        return {name: value.float().square().mean(-1).sqrt().cpu().numpy() for name, value in vectors.items()}

    def rollout(self) -> np.ndarray:
        """Attention rollout after each layer, [layer, query, key]."""
        if self.source is not None:
            raise UsageError("Rollout follows attention within one text, and these maps read another; look at the encoder.")
        if self.attention.shape[-1] != self.attention.shape[-2]:
            raise UsageError("Rollout needs as many keys as queries, but a prefix adds keys, so it cannot be computed here.")
        return head_statistics.rollout(self.attention)

    @cached_property
    def head_scores(self) -> HeadScores | None:
        """Previous-token, duplicate-token, induction and copying scores, on repeated random tokens, not on this text."""
        if self.source is not None:
            return None
        own = self.tokenizer
        marks = {own.start_id, own.stop_id, own.pad_id, own.unknown_id, *(own.mark_id(mark) for mark in own.marks)}
        beyond = range(own.size, self.network.dims.vocabulary)
        return head_scores(self.places, avoid=frozenset({*(mark for mark in marks if mark is not None), *beyond}))

    def head_table(self) -> list[dict[str, Any]]:
        """One row per head: its statistics on this text, and its scores."""
        entropy, distance = head_statistics.entropy(self.attention), head_statistics.distance(self.attention)
        first, found = head_statistics.weight_on_first(self.attention), self.head_scores
        columns = (
            {"entropy": entropy, "first": first} if self.source else {"entropy": entropy, "distance": distance, "first": first}
        )
        if found is not None:
            columns |= {"previous": found.previous, "duplicate": found.duplicate}
            columns |= {"induction": found.induction} if found.induction is not None else {}
            columns |= {"copying": found.copying} if found.copying is not None else {}
        layers, heads = self.attention.shape[:2]
        return [
            {"layer": layer, "head": head} | {name: _number(table[layer, head]) for name, table in columns.items()}
            for layer in range(layers)
            for head in range(heads)
        ]

    def effects(self, texts: Sequence[Sequence[int]] | None = None, *, how: str = "zero") -> HeadEffects:
        """The effect of ablating each head on this text, or on texts given as ids, with the same hidden positions."""
        rows = [torch.tensor(list(ids), device=self._ids_BT.device) for ids in ([self.ids] if texts is None else texts)]
        return head_effects(self.places, rows, how=how, hide=self.hidden)

    def again(self) -> Look:
        """The same text in the network's present state: inside ``without`` or ``patched``, the modified one."""
        return Look(
            self.network,
            self.tokenizer,
            self.ids,
            hide=self.hidden,
            name=self.name,
            labels=self.labels,
            source=self.source,
            end_id=self._end_id,
        )

    def without(
        self, layer: int, head: int, *, how: str = "zero", texts: Sequence[Sequence[int]] | None = None
    ) -> AbstractContextManager[None]:
        """Ablates a head inside a ``with``. ``texts``: ids for means or samples."""
        rows = [torch.tensor(list(ids), device=self._ids_BT.device) for ids in (texts or [self.ids])]
        return ablated(self.places, layer=layer, head=head, how=how, rows=rows, hide=self.hidden)

    def patched(
        self, other: Look, name: str, *, positions: Sequence[int] | None = None, head: int | None = None
    ) -> AbstractContextManager[None]:
        """Patches the activation of ``other`` at a place inside a ``with``; at some positions, or all."""
        value = torch.from_numpy(other.at(name)).unsqueeze(0).to(self._ids_BT.device)
        return patched(self.places, name, value, positions=positions, head=head)

    def patching(self, other: Look, *, target: int, instead: int) -> np.ndarray:
        """Activation patching of the residual stream from ``other``, by layer and position.

        Measured by the logit difference of ``target`` and ``instead`` at the last position: 0 as here, 1 as in ``other``.
        """
        hide = (other.hidden, self.hidden)
        return patching_effects(self.places, other._ids_BT[0], self._ids_BT[0], target=target, other=instead, hide=hide)

    def figure(self, layer: int | None = None, head: int | None = None) -> Figure:
        """The map of a head, of all heads of a layer, or of all heads; save it with ``figures.encode.save_figure``."""
        from glassformer.figures.attention import draw_grid, draw_map

        if layer is None and head is not None:
            raise UsageError(f"head={head} needs its layer; give layer too.", reason="head-without-layer")
        if layer is not None:
            require_head(self.places, layer, head)
        title = f"{self.name}: " if self.name else ""
        if layer is not None and head is not None:
            name = f"{title}layer {layer}, head {head}"
            return draw_map(self.attention[layer, head], self.queries, self.keys, title=name, padding=self.padding)
        chosen = [layer] if layer is not None else list(range(len(self.attention)))
        name = f"{title}{len(self.tokens)} tokens"
        return draw_grid(self.attention[chosen], layers=chosen, title=name, padding=self.padding)

    def to_dict(self, layer: int | None = None, head: int | None = None) -> dict[str, Any]:
        """Plain values: tokens, attention [layer][head][query][key], and the readouts."""
        if layer is not None:
            require_head(self.places, layer, head)
        losses = self.losses
        common = {"tokens": self.queries, "ids": self.ids, "model": self.name, "hidden": self.hidden, "padding": self.padding}
        common["losses"] = None if losses is None else [_number(nats) for nats in losses]
        if self.no_attention and layer is None:
            gradients = self.gradients
            return common | {
                "attention": None,
                "no_attention": self.no_attention,
                "gradients": None if gradients is None else [_number(size) for size in gradients],
                "sizes": {name: [_number(size) for size in by_position] for name, by_position in self.sizes.items()},
            }
        layers = [layer] if layer is not None else list(range(len(self.attention)))
        heads = [head] if head is not None else list(range(self.attention.shape[1]))
        chosen = self.attention[layers][:, heads].astype(np.float64).round(8)
        document = common | {
            "layers": layers,
            "heads": heads,
            "attention": chosen.tolist(),
            "scores": [row for row in self.head_table() if row["layer"] in layers and row["head"] in heads],
            "faults": self.faults,
        }
        source = {} if self.source is None else {"source": list(self.source)}
        return document | source | ({} if self.keys == self.queries else {"keys": self.keys})

    def _repr_html_(self) -> str:
        from glassformer.lens.page import notebook

        return notebook(self)

    def __repr__(self) -> str:
        dims = self.network.dims
        return f"Look({self.name!r}, {len(self.ids)} tokens, {dims.layers} layers of {dims.heads} heads)"


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)
