"""Every figure that a test of this folder makes is searched for markup of mathematics, which would be printed as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from matplotlib.figure import Figure

from glassformer.figures.save import inline_svg


@pytest.fixture(autouse=True)
def _no_markup_in_any_text(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[Figure] = []
    begin = Figure.__init__

    def record(self: Figure, *words: object, **named: object) -> None:
        begin(self, *words, **named)
        made.append(self)

    monkeypatch.setattr(Figure, "__init__", record)
    yield
    monkeypatch.undo()
    for figure in made:
        assert "\\math" not in inline_svg(figure)
