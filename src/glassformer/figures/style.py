"""One look for all figures: readable sizes, colours that colour-blind people can tell apart, a light background.

Figures are made from ``matplotlib.figure.Figure`` and never through pyplot, so nothing has to be closed and no window
opens. Knows nothing of what is drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

# Okabe and Ito (2008), "Color Universal Design"; black is for text and yellow is too pale for lines.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, SOFT, GRID = "#222222", "#6b6b6b", "#e3e3e3"
DASHES = ("-", "--", "-.", ":")
"""Beyond six lines the colours repeat with the next dash."""

_SETTINGS: dict[Any, Any] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10.0,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "lines.linewidth": 1.8,
    "pdf.fonttype": 42,  # TrueType: publishers refuse matplotlib's default, Type 3
    "svg.fonttype": "none",  # text stays text: small files, and a page can be searched
    "svg.hashsalt": "glassformer",  # names inside the file do not change from one drawing to the next
    "text.parse_math": False,  # a token may hold dollar signs; an axis with powers needs a formatter without them
}

# matplotlib's settings are global to the process, and the local page draws from several threads.
_LOCK = threading.RLock()


@contextmanager
def styled() -> Iterator[None]:
    """The look, inside the ``with`` only: a user's own matplotlib settings are left as they were."""
    with _LOCK, mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


class Drawing(Figure):
    """A figure that shows itself in a notebook: no pyplot, so no ``%matplotlib inline``."""

    def _repr_svg_(self) -> str:
        from glassformer.figures.save import to_bytes

        return to_bytes(self, ".svg").decode()


def new_axes(width: float = 7.0, height: float = 3.6) -> tuple[Figure, Axes]:
    """A figure of one picture, in inches."""
    figure = Drawing(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


class _PlainNumbers(LogFormatter):
    """matplotlib chooses which ticks of a logarithmic axis have a label; the label is the number, without markup."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def log_axis(axis: Axis) -> None:
    """Makes an axis logarithmic, with plain numbers at its ticks: markup for powers would be printed as it is."""
    axis.axes.set(**{"xscale" if axis is axis.axes.xaxis else "yscale": "log"})
    axis.set_major_formatter(_PlainNumbers())
    axis.set_minor_formatter(_PlainNumbers(minor_thresholds=(1, 0.4)))


def legend_below(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """The legend under the picture, where it covers nothing; more than two rows of it make the picture higher."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        fitting = int(14 * figure.get_figwidth() / (max(map(len, labels)) + 6))  # about 14 characters of this size in an inch
        ncols = max(1, min(columns, len(handles), fitting))
        rows = -(-len(handles) // ncols)
        figure.set_figheight(figure.get_figheight() + 0.19 * max(0, rows - 2))
        figure.legend(handles, labels, loc="outside lower center", ncols=ncols, fontsize=9)


def line_look(index: int) -> dict[str, Any]:
    """Colour and dash of line number ``index``: no two of the first 24 look alike."""
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": DASHES[index // len(PALETTE) % len(DASHES)]}
