"""The words that the page explains are those of the glossary, in the same sentences."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from glassformer.web.server import HERE

GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r'^  (\[".*"\]),?$', (HERE / "static" / "words.js").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_words_that_studies_are_made_of_are_there() -> None:
    assert {"margin", "paired", "interim look", "baseline", "verdict", "tainted"} <= {json.loads(row)[0] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: json.loads(row)[0])
def test_a_word_means_what_the_glossary_says(row: str) -> None:
    word, about = json.loads(row)
    (line,) = [line for line in GLOSSARY.splitlines() if re.match(rf"\| (\*\*\w+\*\*, )?\*\*{re.escape(word)}\*\*", line)]
    said = re.sub(r" ?\(\[[^\]]*\]\([^)]*\)\)", "", line.split(" | ", 1)[1].removesuffix(" |"))
    assert about == re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", said).replace("**", "")
