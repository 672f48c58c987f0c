"""What every answer and exploration is: numbers, a paragraph, a picture; shows itself in a notebook, offline.

The page and the notebook view carry the picture as SVG inside; nothing is loaded from anywhere.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, final

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
        from glassformer.figures.encode import inline_svg  # matplotlib takes half a second: only when something is drawn

        paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in self.text.split("\n\n"))
        return f"<section><h3>{html.escape(self.title)}</h3>{paragraphs}<figure>{inline_svg(self.figure())}</figure></section>"

    @final
    def page(self) -> str:
        """One self-contained HTML page."""
        return (
            "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
            f"<meta name='viewport' content='width=device-width'><title>{html.escape(self.title)}</title>"
            "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
            "figure{margin:1rem 0;overflow-x:auto}svg{max-width:100%;height:auto}</style></head>"
            f"<body>{self._repr_html_()}</body></html>\n"
        )
