"""The page of several sets: the verdicts over all, every set beside the others, nothing from outside."""

from __future__ import annotations

from glassformer.pages.page import FigureBlock, Fold, Table, Verdicts
from glassformer.study.reporting.set_report import sets_page


def test_the_page_has_the_verdicts_every_set_and_the_line_over_all(sets):
    page = sets_page(sets)
    verdicts = next(block for block in page.sections if isinstance(block, Verdicts))
    assert [(item.name, item.verdict) for item in verdicts.items] == [("alibi", "better"), ("none", "better")]
    assert verdicts.items[0].sentence.startswith("is better over 3 sets")
    table = next(block for block in page.sections if isinstance(block, Table))
    assert [row[1] for row in table.rows] == ["a", "b", "c", "over all sets"] * 2
    assert table.rows[3][4] == sets.verdicts[0].difference
    assert sum(isinstance(block, FigureBlock) for block in page.sections) == 2
    assert [block.title for block in page.sections if isinstance(block, Fold)] == ["a", "b", "c"]


def test_it_is_one_file_with_markdown_beside_it(sets, tmp_path):
    file = sets.report()
    html = file.read_text(encoding="utf-8")
    assert file == sets.folder / "report.html"
    assert "over all sets" in html
    assert 'src="http' not in html
    assert (sets.folder / "report.md").read_text(encoding="utf-8").startswith("# Study both")
    assert list((sets.folder / "figures").iterdir())
    assert sets.report(tmp_path / "page.html") == tmp_path / "page.html"
