"""Named sets: found where they are, a sentence where they are not, fetched by name where that is possible."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
from tests.refusals import refused

from glassformer.data.reading import named_sets as sets
from glassformer.data.reading.corpus import read
from glassformer.data.reading.named_sets import SETS, FileSet, find_set
from glassformer.foundation.errors import DataError, UnknownName


@pytest.fixture
def without_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets.importlib.util, "find_spec", lambda name: None)


@pytest.fixture
def with_datasets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[object, ...]]:
    """A ``datasets`` library that remembers what it was asked for."""
    asked: list[tuple[object, ...]] = []
    module = types.ModuleType("datasets")

    def load_dataset(*arguments: object, **settings: object) -> dict[str, list[str]]:
        asked.append((*arguments, settings))
        if arguments[0] == "text":
            return [{"text": "First Citizen:\nSpeak.\n"}]
        return [{"text": text} for text in ("", " = One = \n", "", " words \n")]

    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setattr(sets.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    return asked


def test_docstrings_are_built_in_and_say_what_they_are() -> None:
    parts = find_set("docstrings")
    assert parts.train.document == "block"
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]}" in parts.notes[0]
    assert "differs between Python versions" in parts.notes[0]
    first = next(iter(read(parts.train)))
    assert first.text.endswith("\n\n")


def test_an_unknown_name_gets_the_nearest() -> None:
    with refused(UnknownName, "unknown-name", "data.set", "'wikitext2'", "'wikitext-2'"):
        find_set("wikitext2")


@pytest.mark.usefixtures("without_datasets")
class TestAbsent:
    def test_without_a_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
        with pytest.raises(DataError) as caught:
            find_set("wikitext-2")
        for part in ("train.txt, valid.txt", "set GLASSFORMER_DATA", "pytorch/examples", "install the datasets library"):
            assert part in str(caught.value)

    def test_with_a_file_missing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "wikitext-2").mkdir()
        (tmp_path / "wikitext-2" / "train.txt").write_text(" = One = \n")
        monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
        assert not SETS["wikitext-2"].is_here()
        with refused(DataError, "set-not-here", "valid.txt"):
            find_set("wikitext-2")

    def test_one_that_cannot_be_fetched_does_not_offer_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
        with pytest.raises(DataError) as caught:
            find_set("speeches")
        assert "datasets library" not in str(caught.value)
        assert "train_lm.txt, train_classify.tsv" in str(caught.value)


class TestFetched:
    def test_wikitext_by_name_with_its_blank_lines(
        self, with_datasets: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        parts = find_set("wikitext-2")
        assert [call[:2] for call in with_datasets] == [("Salesforce/wikitext", "wikitext-2-v1")] * 3
        assert parts.train.files[0].read_text() == " \n = One = \n \n words \n"
        assert list(parts.tests) == ["test"]
        assert "its sha256 differs" in parts.notes[0]
        monkeypatch.setattr(sets.importlib.util, "find_spec", lambda name: None)
        find_set("wikitext-2")
        assert len(with_datasets) == 3  # the second time it is there, also when the library is gone
        assert SETS["wikitext-2"].is_here()

    def test_shakespeare_verbatim(self, with_datasets: list[tuple[object, ...]]) -> None:
        assert find_set("tinyshakespeare").train.files[0].read_text() == "First Citizen:\nSpeak.\n"

    def test_a_failing_network_ends_in_the_same_sentence(
        self, with_datasets: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def offline(*arguments: object, **settings: object) -> None:
            raise ConnectionError("no route to host")

        monkeypatch.setattr(sys.modules["datasets"], "load_dataset", offline)
        with refused(DataError, "set-not-here", "train.txt"):
            find_set("wikitext-2")


def test_present_files_become_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "speeches"
    folder.mkdir()
    for name in ("train_lm.txt", "test_lm_hbush.txt"):
        (folder / name).write_text("One sentence.\n")
    (folder / "train_classify.tsv").write_text("0\tAnother sentence.\n")
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    parts = find_set("speeches")
    assert list(parts.tests) == ["hbush"]
    assert parts.train.document == "line"
    assert [document.text for document in read(parts.vocabulary[0])] == ["Another sentence.\n"]


@pytest.mark.realdata
class TestRealSets:
    @pytest.fixture(autouse=True)
    def _here(self, real_data: Path) -> None:
        pass

    @pytest.mark.parametrize("name", ["wikitext-2", "tinyshakespeare", "speeches"])
    def test_is_the_file_that_figures_were_measured_on(self, name: str) -> None:
        known = SETS[name]
        assert isinstance(known, FileSet)
        assert known.is_here()
        assert find_set(name).notes == ()

    def test_wikitext_has_its_articles(self) -> None:
        parts = find_set("wikitext-2")
        assert parts.validation is not None
        counts = [sum(1 for _ in read(source)) for source in (parts.train, parts.validation)]
        assert counts == [600, 60]

    def test_the_words_of_the_speeches_are_about_those_of_the_public_solutions(self) -> None:
        from glassformer.data.tokenizers.word import WordTokenizerConfig

        parts = find_set("speeches")
        texts = [document.text for source in (parts.train, *parts.vocabulary) for document in read(source)]
        size = WordTokenizerConfig(min_count=1).train(lambda: texts).size
        assert 0.96 * 5755 < size < 1.02 * 5755  # theirs counts three labels as words
