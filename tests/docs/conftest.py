"""A small text in the place of the built-in one, for commands and snippets whose figures no test reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from glassformer.data.reading import docstrings

EVERY = 6
"""Of so many source files one is read."""


@pytest.fixture(scope="module")
def few_docstrings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """With a cache folder of its own: the whole text, where it is kept for other tests, is another one."""
    files = docstrings.source_files()[::EVERY]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(docstrings, "source_files", lambda: files)
        patch.setenv("GLASSFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
