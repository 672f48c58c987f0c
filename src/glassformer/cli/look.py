"""``glassformer look``: a text seen from inside a run's model: a table, one JSON document, a page, or a picture."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from glassformer.cli.console import out, print_table, remarks, say
from glassformer.cli.options import Json, Plugin, RunArgument, lines_of
from glassformer.foundation.errors import UsageError

if TYPE_CHECKING:
    from glassformer.lens.interventions import HeadEffects
    from glassformer.lens.look import Look
    from glassformer.run import Run

PICTURES = (".svg", ".png", ".pdf")


def command(
    run: RunArgument,
    text: Annotated[str, Argument(metavar="TEXT", help="The input text.")],
    checkpoint: Annotated[str, Option(metavar="untrained|best|last|N", help="untrained or 0: initial weights.")] = "last",
    layer: Annotated[int | None, Option(help="Show this layer only, counted from 0.")] = None,
    head: Annotated[int | None, Option(help="Show this head of --layer only, counted from 0.")] = None,
    hide: Annotated[list[int] | None, Option(metavar="POSITION", help="No token attends to this position. Repeatable.")] = None,
    pad: Annotated[int | None, Option(metavar="N", min=1, help="Pad to N tokens, as in a batch; greyed in pictures.")] = None,
    attention: Annotated[
        str | None,
        Option(metavar="cross|encoder|decoder", help="Of a translation: target to source (default), of the source or target."),
    ] = None,
    target: Annotated[str | None, Option(metavar="TEXT", help="Look at this translation of TEXT, not the run's own.")] = None,
    compare: Annotated[str | None, Option(metavar="RUN|CHECKPOINT", help="Show another run or checkpoint beside it.")] = None,
    film: Annotated[bool, Option("--film", help="Show every snapshot of training (recipe key checkpoint.film).")] = False,
    walk: Annotated[bool, Option("--walk", help="Follow a token through the network; with --out page.html or --json.")] = False,
    position: Annotated[int | None, Option(metavar="N", help="With --walk: which token, from 0; default the last.")] = None,
    ablate: Annotated[str | None, Option(metavar="zero|mean|resample", help="Print the loss without each head.")] = None,
    texts: Annotated[Path | None, Option(metavar="FILE", help="Texts for --ablate, one per line; default: TEXT.")] = None,
    out_: Annotated[
        Path | None,
        Option("--out", metavar="page.html|map.svg|map.png", help="Write a page, or the attention map as a picture."),
    ] = None,
    plugin: Plugin = None,
    json: Json = False,
) -> None:
    """Look inside: what the model does with a text. Attention maps, logit lens, loss by token, scores of every head."""
    from glassformer.run import load

    if film and compare is not None:
        raise UsageError("--film and --compare are both given; give one of them.")
    if head is not None and layer is None:
        raise UsageError(f"--head {head} needs its layer; add --layer N.")
    if texts is not None and ablate is None:
        raise UsageError(f"--texts {texts} is used only with --ablate; add --ablate zero, mean or resample, or drop --texts.")
    if out_ is not None and out_.suffix.lower() not in (".html", *PICTURES):
        raise UsageError(f"--out {out_} must end in .html, {', '.join(PICTURES)}.")
    if position is not None and not walk:
        raise UsageError(
            f"--position {position} is used only with --walk; add --walk, or drop it.", reason="position-without-walk"
        )
    loaded = load(run, plugins=plugin or (), watch=remarks())
    if loaded.recipe.objective.ask_reads == "pairs" and target is None:  # one translation for everything that is compared
        target = loaded.translate(text, checkpoint=checkpoint)[0].text
    more: dict[str, Any] = {"attention": attention, "target": target, "hide": hide or (), "pad": pad}
    if walk:
        others = {"--film": film, "--compare": compare, "--ablate": ablate, "--layer": layer is not None}
        _walk(loaded.look(text, checkpoint=checkpoint, **more), -1 if position is None else position, others, out_, json)
        return
    looks = _looks(loaded, text, checkpoint, more, compare, film)
    if layer is not None:
        from glassformer.lens.interventions import require_head

        for look in looks:
            require_head(look.places, layer, head)
    shown = looks[-1]  # those before it are what it is compared with, or earlier moments
    effects = None if ablate is None else _effects(shown, ablate, _rows(loaded, texts))
    if out_ is not None:
        _write(looks, out_, text, layer, head, kind="film" if film else "compare" if compare is not None else "one")
    if json:
        _print_document(looks, layer, head, effects, film=film)
        return
    if out_ is not None:
        out().print(str(out_))
    else:
        for look in looks:
            _print_look(look, layer, head)
        if shown.no_attention is None:
            say(EXPLAINED)
    if effects is not None:
        _print_effects(shown.name, effects)


def _walk(look: Look, position: int, others: dict[str, Any], out_: Path | None, json: bool) -> None:
    from glassformer.foundation.files import write_atomically
    from glassformer.lens.walk import render_walk, walk

    given = [name for name, value in others.items() if value]
    if given:
        raise UsageError(f"--walk and {given[0]} are both given; give one of them.", reason="walk-and-another")
    if out_ is None and not json:
        raise UsageError("--walk needs --out page.html, or --json.", reason="walk-needs-a-page")
    if out_ is not None:
        if out_.suffix.lower() != ".html":
            raise UsageError(f"--out {out_}: a walk-through is a page; the file must end in .html.", reason="walk-is-a-page")
        write_atomically(out_, render_walk(look, position))
    sys.stdout.write(dumps(walk(look, position), ensure_ascii=False) + "\n") if json else out().print(str(out_))


EXPLAINED = (
    "On this text: entropy (of the weights, in nats), distance (mean, in tokens), first (weight on the first token). "
    "On repeated random tokens: weight on the previous token, on its duplicate, and after it (induction). "
    "docs/look.md explains each. The attention maps: add --out page.html, or --layer L --head H."
)


def _looks(run: Run, text: str, checkpoint: str, more: dict[str, Any], compare: str | None, film: bool) -> list[Look]:
    from glassformer.run import load

    if film:
        from glassformer.runs.checkpoint import moments

        return [run.look(text, checkpoint=step, **more) for step in moments(run.directory)]
    looks = [run.look(text, checkpoint=checkpoint, **more)]
    if compare is not None:
        if compare in ("untrained", "best", "last") or compare.isdigit():
            other = run.look(text, checkpoint=compare, **more)
        else:
            other = load(compare, watch=remarks()).look(text, **more)
            other.name = Path(compare).name
        if other.queries != looks[0].queries:
            say(
                f"The two tokenizers split the text differently ({len(other.queries)} and {len(looks[0].queries)} tokens), so "
                "positions do not correspond; compare what heads do, not single positions."
            )
        looks.insert(0, other)  # what it is compared with stands on the left
    return looks


def _rows(run: Run, texts: Path | None) -> list[list[int]] | None:
    if texts is None:
        return None
    return [run.look(line).ids for line in lines_of(texts) if line]


def _effects(look: Look, ablate: str, rows: list[list[int]] | None) -> HeadEffects:
    """What the lens refuses by the name of its argument is refused here by the name of the option."""
    from glassformer.lens.interventions import HOW

    if ablate not in HOW:
        raise UsageError(f"--ablate {ablate} cannot be used: choose {', '.join(HOW)}.")
    if ablate == "resample" and (rows is None or len(rows) == 1):
        raise UsageError("--ablate resample takes outputs from another text; give --texts FILE with at least two lines.")
    return look.effects(rows, how=ablate)


def _write(looks: list[Look], file: Path, text: str, layer: int | None, head: int | None, *, kind: str) -> None:
    from glassformer.figures.save import save_figure
    from glassformer.foundation.files import write_atomically
    from glassformer.lens.page import render

    if file.suffix.lower() == ".html":
        shown = " ".join(text.split())
        title = f"Look: {shown if len(shown) <= 60 else shown[:59] + '…'}"
        write_atomically(file, render(looks, title=title, kind=kind))
        return
    save_figure(looks[-1].figure(layer, head), file)
    for look in looks[:-1]:  # before, or the earlier moments of a film, beside it
        save_figure(look.figure(layer, head), file.with_stem(f"{file.stem}-{look.name.replace(' ', '-')}"))


def _print_document(looks: list[Look], layer: int | None, head: int | None, effects: Any, *, film: bool) -> None:
    document = looks[-1].to_dict(layer, head)
    if effects is not None:
        document["ablation"] = effects.to_dict()
    if film:
        document["film"] = [look.to_dict(layer, head) for look in looks]
    elif len(looks) > 1:
        document["compare"] = looks[0].to_dict(layer, head)
    sys.stdout.write(dumps(document, ensure_ascii=False, allow_nan=False) + "\n")  # one number a line would be too much


def _print_look(look: Look, layer: int | None, head: int | None) -> None:
    if look.no_attention and layer is None:
        _print_without_maps(look)
        return
    table = [
        row for row in look.head_table() if (layer is None or row["layer"] == layer) and (head is None or row["head"] == head)
    ]
    for fault in look.faults:
        say(fault)
    columns = list(table[0])
    rows = [[_shown(name, row[name]) for name in columns] for row in table]
    print_table(f"Checkpoint {look.name}, {len(look.tokens)} tokens: scores of each attention head", columns, rows)
    if layer is not None and head is not None:
        weights = look.attention[layer, head]
        for at, token in enumerate(look.queries):
            order = [key for key in weights[at].argsort()[::-1][:4] if weights[at, key] > 0]
            reads = ", ".join(f"{key} {look.keys[key]!r} {weights[at, key]:.0%}" for key in order)
            out().print(f"{at:4d} {token!r} reads {reads or 'nothing'}")


def _print_without_maps(look: Look) -> None:
    """What there is without attention patterns: loss and gradient of each token, and how large each module's output is."""
    losses, gradients = look.losses, look.gradients
    columns = {"loss": losses, "gradient": gradients}
    found = {name: values for name, values in columns.items() if values is not None}
    rows = [
        [str(at), repr(token), *(_shown(name, float(values[at])) for name, values in found.items())]
        for at, token in enumerate(look.tokens)
    ]
    print_table(f"Checkpoint {look.name}, {len(look.tokens)} tokens", ["position", "token", *found], rows)
    sizes = [[name, f"{values.mean():.3g}", f"{values.max():.3g}"] for name, values in look.sizes.items()]
    print_table("Root mean square of what each module gives", ["module", "mean over positions", "largest"], sizes)
    say(f"{look.no_attention} Gradient: of the summed loss, its length at the vector of each token.")


def _shown(name: str, value: Any) -> str:
    return "" if value is None or value != value else str(value) if name in ("layer", "head") else f"{value:.3f}"


def _print_effects(name: str, effects: Any) -> None:
    layers, heads, _ = effects.by_text.shape
    rows = [[f"{layer}.{head}", str(effects.of(layer, head))] for layer in range(layers) for head in range(heads)]
    print_table(f"{name}, without the head ({effects.how}): {effects.unit}", ["layer.head", "effect"], rows)
