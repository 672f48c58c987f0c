"""What every answer and exploration is: numbers, a paragraph, a picture; and numbers in the words of its sentences.

A result shows itself in a notebook and as a page with the picture as SVG inside; nothing is loaded from anywhere. Sentences
round for reading; JSON has every digit.
"""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from glassformer.byhand.problem import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(ABC):
    """``text`` says what to see, ``to_dict()`` is the JSON, ``figure()`` the picture."""

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    @abstractmethod
    def text(self) -> str:
        """Paragraphs, divided by empty lines."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Strings, numbers, lists and mappings only; no NaN."""

    @abstractmethod
    def figure(self) -> Figure: ...

    @final
    def _repr_html_(self) -> str:
        from glassformer.figures.save import inline_svg  # matplotlib takes half a second: only when something is drawn

        paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in self.text.split("\n\n"))
        return f"<section><h3>{html.escape(self.title)}</h3>{paragraphs}<figure>{inline_svg(self.figure())}</figure></section>"

    @final
    def page(self) -> str:
        """One self-contained HTML page."""
        from glassformer.figures.html_document import html_document

        return html_document(title=self.title, body=f"<main>{self._repr_html_()}</main>")


def plain(value: Any) -> Any:
    """An array as a list, and so those inside a mapping or a list."""
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


def number(x: float) -> str:
    """Four significant digits; very small and very large ones with an exponent."""
    if x == 0:
        return "0"
    if 0.9999 < x < 1 - 1e-12:
        return f"{x:.{1 - math.floor(math.log10(1 - x))}f}"  # two digits of what is missing to 1
    if 1e-4 <= abs(x) < 1e5:
        text = f"{x:.4g}"
        return text if "e" not in text else f"{x:.0f}"
    return f"{x:.2e}"


def vector(xs: Array | Iterable[float]) -> str:
    """(0.5, 0.25, 0.25)"""
    return "(" + ", ".join(number(float(x)) for x in xs) + ")"


def percent(share: float) -> str:
    """87.9 %"""
    return f"{100 * share:.1f} %"


def fraction(x: Fraction) -> str:
    """3/7 where a person can check it, else a decimal."""
    if x.denominator == 1:
        return str(x.numerator)
    return f"{x.numerator}/{x.denominator}" if x.denominator <= 1000 and abs(x.numerator) <= 10000 else number(float(x))


def some_keys(places: Iterable[int]) -> str:
    """key 1; keys 1 and 2; keys 1, 2 and 5. Takes places from 0, writes numbers from 1."""
    numbers = [str(place + 1) for place in places]
    if len(numbers) == 1:
        return f"key {numbers[0]}"
    return f"keys {', '.join(numbers[:-1])} and {numbers[-1]}"


def combination(coefficients: Mapping[int, Fraction | float], symbol: str = "key ") -> str:
    """1/4 key 2 + 3/4 key 3; a coefficient of 1 is left out."""
    parts: list[str] = []
    for place, coefficient in coefficients.items():
        size: Fraction | float = -coefficient if coefficient < 0 else coefficient
        amount = "" if size == 1 else (fraction(size) if isinstance(size, Fraction) else number(size)) + " "
        sign = "- " if coefficient < 0 else ("+ " if parts else "")
        parts.append(f"{sign}{amount}{symbol}{place + 1}")
    return " ".join(parts)
