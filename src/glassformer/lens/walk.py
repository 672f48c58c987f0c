"""A look and a position -> the forward pass of that token, step by step, as plain values that a page draws.

One pass with a hook on every tap and on the parts between them, in the order in which they ran; all numbers are the model's.
A step that is known by its place has a title and a sentence. Any other part (a variant of one's own, an encoder of
transformers) is shown as what comes in and what goes out. The line of code is read from the source of the module that calls
the part.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.figures.html_document import drawn_document
from glassformer.foundation.errors import BadArgument
from glassformer.lens.capture import Place, Places, hidden_mask, quiet
from glassformer.lens.look import Look
from glassformer.lens.page import static
from glassformer.model.tap import BY_HEAD, PATTERN, STREAM, Tap

TOP = 8
"""Outputs that are shown of the last step, the likeliest first."""
WIDEST = 256
"""Numbers of a row that are shown; a wider one is cut, and says so."""

STEPS: tuple[tuple[str, str, str], ...] = (
    (r"embedding", "Embedding", "The token's own row of the table of token vectors."),
    (r"embedding_norm", "Norm of the embedding", "The vector brought to a common size."),
    (r"embedded", "With its position", "The vector that enters the first layer: token and, where they are added, position."),
    (r"blocks\.\d+\.before", "", ""),  # equal to what was shown last
    (
        r".*\.attention_norm",
        "Norm before attention",
        "The vector brought to a common size; attention reads this, not the sum itself.",
    ),
    (
        r".*\.mixer\.query",
        "Query",
        "What this token looks for, one vector a head. Rotary positions, where a model has them, have turned it already.",
    ),
    (
        r".*\.mixer\.key",
        "Key",
        "What this token offers to be found by, one vector a head; turned by rotary positions like the query.",
    ),
    (r".*\.mixer\.value", "Value", "What this token gives to whoever attends to it, one vector a head."),
    (
        r".*\.mixer\.scores",
        "Scores",
        "The query times the key of every token, scaled: how well each fits. Tokens that it may not see are masked afterwards.",
    ),
    (r".*\.pattern", "Softmax", "The scores as weights: positive, with a sum of one. This is the attention pattern."),
    (r".*\.heads", "Mean of the values", "Each head's mean of the values, under its weights."),
    (r".*\.merged", "Heads merged", "The heads side by side, as one vector."),
    (r".*\.attention\.output", "Output projection", "What attention adds to the residual stream."),
    (r".*\.middle", "Residual sum", "The vector that came in, plus what attention adds."),
    (r".*\.feedforward_norm", "Norm", "The sum brought to a common size."),
    (r".*\.neurons", "Neurons", "The inner layer of the feed-forward after its nonlinearity: most are near zero."),
    (r".*\.feedforward", "Feed-forward", "What the feed-forward adds, computed from this token alone."),
    (r".*\.after", "Residual sum", "The vector that leaves the layer."),
    (r"final_norm", "Last norm", "The vector brought to a common size once more."),
    (r"final", "", ""),
    (r"head", "Logits", "A number for every output; the softmax of them are the probabilities."),
)
"""A pattern of names, a title (none: not shown), a sentence. The first that fits the whole name counts."""

NOTHING_ADDED = (
    "Equal to the step before: nothing is added here. This model's positions act inside attention, on queries and keys or on "
    "scores (or it has none)."
)


def walk(look: Look, position: int = -1) -> dict[str, Any]:
    """``{"title", "tokens", "position", "steps": [...]}``, for ``static/walk.js``. ``position`` may count from the end."""
    count = len(look.tokens)
    if not -count <= position < count:
        raise BadArgument("position", position, f"this text has the positions 0 to {count - 1}; give one of them")
    at = position % count
    passed, scores = _pass(look)
    steps: list[dict[str, Any]] = []
    for place, value, entered in passed:
        step = _step(look, place, value, entered, at)
        if step is None:
            continue
        if place.name == "embedded" and steps and steps[-1]["values"] == step["values"]:
            step["text"] = NOTHING_ADDED
        steps.append(step)
    steps.append(_outputs(look, scores, at))
    return {"title": look.name, "tokens": look.tokens, "position": at, "steps": steps}


def _pass(look: Look) -> tuple[list[tuple[Place, Tensor, Tensor | None]], Tensor]:
    """Every step that ran: its place, what went out, what came in; and the logits."""
    found: list[tuple[Place, Tensor, Tensor | None]] = []

    def keep(place: Place) -> Callable[..., None]:
        seen = itertools.count()

        def hook(module: Any, inputs: Any, output: Any) -> None:
            if next(seen) % place.calls != place.call or not place.is_in(output):  # a layer may run several times
                return
            value = place.read(output)
            entered = next((one for one in inputs if isinstance(one, Tensor)), None) if isinstance(inputs, tuple) else None
            found.append((place, value.detach().clone(), None if entered is None else entered.detach().clone()))

        return hook

    network, ids_BT = look.network, torch.tensor([look.ids], device=next(look.network.parameters()).device)
    with ExitStack() as after, quiet(network):
        for place in _places(look.places):
            after.callback(place.module.register_forward_hook(keep(place)).remove)
        scores = network(ids_BT, key_padding_mask_BS=hidden_mask(ids_BT, look.hidden))
    return found, scores.detach()


def _places(places: Places) -> list[Place]:
    """All taps; and the parts between them: what the network, a block or an attention layer calls without taps inside."""
    found = dict(places.by_name)
    inside_of = _path(places.network)
    modules = {
        name.removeprefix(inside_of): module
        for name, module in places.network.named_modules()
        if name.startswith(inside_of) and name != inside_of.rstrip(".")
    }
    tapped = {name for name, module in modules.items() if isinstance(module, Tap) and module.axes}
    if not tapped:  # an encoder of transformers: its places are all there is
        return list(found.values())
    owners = {owner for owner in {name.rpartition(".")[0] for name in tapped} if "." not in owner.removeprefix("blocks.")}
    for name, module in modules.items():
        owner = name.rpartition(".")[0]
        inside = any(one.startswith(f"{name}.") for one in tapped)
        calls = owner in owners or (owner.rpartition(".")[0] in owners and name.endswith(".output"))
        if name and calls and not isinstance(module, Tap | nn.Identity | nn.ModuleList) and _shown(module, name, inside):
            found[name] = Place(name, tuple(STREAM.split()), module)
    return list(found.values())


def _path(network: Any) -> str:
    """Where the parts are that a look names: the decoder of a network that is given its source, else the network itself."""
    return str(getattr(network, "decoder_path", ""))


def _shown(module: nn.Module, name: str, inside: bool) -> bool:
    """Not dropout, and not what consists of shown parts; the feed-forward adds something of its own."""
    if type(module).__name__ in ("Dropout", "Plain"):
        return False
    return not inside or name.endswith("feedforward")


def _step(look: Look, place: Place, value: Tensor, entered: Tensor | None, at: int) -> dict[str, Any] | None:
    title, text = next(((title, text) for form, title, text in STEPS if re.fullmatch(form, place.name)), (None, ""))
    if title == "" or place.name == "head":  # the outputs are drawn from the logits
        return None
    drawn = _drawn(look, place, value, at)
    if drawn is None:
        return None
    layer = re.match(r"blocks\.(\d+)\.", place.name)
    step = {
        "name": place.name,
        "title": title or place.name.rpartition(".")[2].replace("_", " "),
        "text": text or f"{type(place.module).__name__}: a part without a description; what goes out, and below what came in.",
        "layer": None if layer is None else int(layer.group(1)),
        "shape": list(value.shape),
        "axes": list(place.axes),
        **code_of(look.network, place.name),
        **drawn,
    }
    before = None if entered is None or title is not None else _drawn(look, place, entered, at)
    return {**step, "in": before["values"]} if before is not None and before["kind"] == step["kind"] else step


def _drawn(look: Look, place: Place, value: Tensor, at: int) -> dict[str, Any] | None:
    """The numbers of one position: a vector, a vector a head, or a row of weights a head; None for other shapes."""
    array = value.float().cpu().numpy()  # a pattern may be the same for all rows; the first is this text's
    heads = [f"head {head}" for head in range(array.shape[1])] if array.ndim == 4 else []
    if place.axes == tuple(PATTERN.split()) and array.ndim == 4:
        row = at + array.shape[2] - len(look.tokens)  # after virtual tokens of a prompt, if there are any
        columns = look.tokens if array.shape[3] == len(look.tokens) else [str(key) for key in range(array.shape[3])]
        return {"kind": "weights", "values": _rounded(array[0, :, row]), "rows": heads, "columns": columns}
    if place.axes == tuple(BY_HEAD.split()) and array.ndim == 4 and array.shape[2] > at:
        return {"kind": "heads", "values": _rounded(array[0, :, at, :WIDEST]), "rows": heads, "columns": None}
    if array.ndim == 3 and array.shape[1] > at:
        vector = array[0, at]
        size = float(np.sqrt((vector.astype(np.float64) ** 2).sum()))
        values = _rounded(vector[None, :WIDEST])
        return {"kind": "vector", "values": values, "rows": [""], "columns": None, "length": round(size, 4), "of": len(vector)}
    return None


def _outputs(look: Look, scores: Tensor, at: int) -> dict[str, Any]:
    logits = (scores[0, at] if scores.dim() == 3 else scores[0]).double().cpu()
    shares = logits.softmax(-1)
    best = shares.topk(min(TOP, len(shares))).indices.tolist()
    _, title, text = STEPS[-1]
    return {
        "name": "head",
        "title": title,
        "text": text,
        "layer": None,
        "shape": list(scores.shape),
        "axes": ["batch", "position", "output"] if scores.dim() == 3 else ["batch", "output"],
        **code_of(look.network, "head"),
        "kind": "outputs",
        "values": [_rounded(logits[best].numpy()), _rounded(shares[best].numpy())],
        "rows": ["logit", "probability"],
        "columns": [look.output_name(one) for one in best],
    }


def _rounded(array: np.ndarray) -> Any:
    """Six digits; what is not a number (a masked score) becomes None."""
    cleaned = np.where(np.isfinite(array), array, np.nan).astype(np.float64)
    return json.loads(json.dumps(np.round(cleaned, 6).tolist()).replace("NaN", "null"))


def code_of(network: nn.Module, name: str) -> dict[str, Any]:
    """``{"code", "where"}``: the line that calls a part, and its file; both None where the source is not to be had.

    A call inside the call of another part is shown alone, below the line that computed what it is given.
    """
    owner, _, attribute = name.rpartition(".")
    nothing: dict[str, Any] = {"code": None, "where": None}
    try:
        module = network.get_submodule((_path(network) + owner).rstrip("."))
    except AttributeError:
        return nothing
    call = re.compile(rf"self\.{re.escape(attribute)}\(")
    for kind in type(module).__mro__:
        try:
            lines, first = inspect.getsourcelines(kind)
        except (OSError, TypeError):  # built in, or typed into a notebook's cell that is gone
            continue
        for number, line in enumerate(lines):
            if found := call.search(line):
                where = f"{Path(inspect.getsourcefile(kind) or '').name}:{first + number}"
                inner = re.match(r"self\.\w+\((\w+)\)", line[found.start() :])
                if inner is None or "self." not in line[: found.start()]:
                    return {"code": line.strip(), "where": where}
                made = [one.strip() for one in lines[:number] if re.match(rf"\s*{inner[1]}\b[^(]*=", one)]
                return {"code": "\n".join([*made[-1:], inner[0]]), "where": where}
    return nothing


def render_walk(look: Look, position: int = -1) -> str:
    """One self-contained page."""
    title = f"One token through the model: {look.name}" if look.name else "One token through the model"
    script = re.sub(r"^export ", "", static("walk.js"), flags=re.MULTILINE)
    script += '\ndrawWalk(document.getElementById("walk"), JSON.parse(document.getElementById("walk-data").textContent));'
    return drawn_document("walk", walk(look, position), title=title, script=script, style=static("walk.css"))
