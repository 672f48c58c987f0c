"""The built-in corpus: what counts as prose, and that the whole is the same twice."""

from __future__ import annotations

import sys

import pytest
from tests.refusals import refused

from glassformer.data.reading import docstrings
from glassformer.data.reading.docstrings import docstring_corpus, docstrings_of, prose_of, source_files
from glassformer.foundation.errors import DataError

MODULE = '''"""The module, at the top."""
def later():
    def inner():
        "inner"
    return inner
class Thing:
    """The class."""
    async def first(self):
        """The method."""
'''

NESTED = """try:
    import a
except ImportError:
    def in_handler(): "handler"
else:
    def in_else(): "else"
finally:
    class InFinally: "finally"
while True:
    with open(path) as one:
        match one:
            case [call]:
                def in_case(key=lambda: "no docstring"): "case"
"""

DOCSTRING = """Return the mean of the values, which must be numbers.

    This paragraph is indented, so it is an example or a list of things.

>>> mean([1, 2])
1.5

mean(values) -> number(of) them, which is a signature and so it is left out.

Too short.

A paragraph over
two lines is joined into one, because lines are broken for width only.

Name    Meaning  of the columns of this table, which is not prose at all.

Values such as 10:30, 20:40, (5), [6], 7/8 and <9> of 1,000,000 are good.

it begins with a small letter and goes on for quite a while after that.
"""


def test_docstrings_in_the_order_of_the_lines() -> None:
    assert list(docstrings_of(MODULE)) == ["The module, at the top.", "inner", "The class.", "The method."]
    assert list(docstrings_of(NESTED)) == ["handler", "else", "finally", "case"]
    assert list(docstrings_of("def broken(:")) == []


def test_only_prose_is_kept() -> None:
    assert list(prose_of(DOCSTRING)) == [
        "Return the mean of the values, which must be numbers.",
        "A paragraph over two lines is joined into one, because lines are broken for width only.",
    ]


def test_the_corpus_is_large_clean_and_the_same_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    files = source_files()
    assert len(files) > 300
    assert not [file for file in files if {"test", "tests", "site-packages", "idlelib"} & set(file.parts)]
    monkeypatch.setattr(docstrings, "source_files", lambda: files[::7])  # a part: all of it takes seconds
    text = docstring_corpus()
    blocks = text.removesuffix("\n").split("\n\n")
    assert len(blocks) > 400
    assert len(set(blocks)) == len(blocks)
    assert all("\n" not in block and block == block.strip() and ">>>" not in block for block in blocks)
    assert docstring_corpus() == text


def test_nothing_is_imported() -> None:
    before = set(sys.modules)
    next(iter(docstrings_of(source_files()[0].read_text())), None)
    assert not {"antigravity", "this"} & (set(sys.modules) - before)


def test_a_python_without_sources_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docstrings, "source_files", list)
    with refused(DataError, "no-standard-library"):
        docstring_corpus()
