"""The whole way from files to tokens: contents, splits, what is kept and when it is made anew, what is said and refused."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.data import prepare as module
from glassformer.data.config import DataConfig
from glassformer.data.prepare import PreparedText, prepare, tokens_of_file, tokens_of_text
from glassformer.data.reading.corpus import read
from glassformer.data.tokenizers.base import TOKENIZERS
from glassformer.data.tokenizers.char import CharTokenizer
from glassformer.foundation.errors import DataError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(folder: Path, name: str, text: str | bytes) -> str:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def made(tokenizer: Any = "char", **data: Any) -> PreparedText:
    return prepare(DataConfig.parse(data, at="data"), TOKENIZERS.parse(tokenizer))


def text_of(prepared: PreparedText, name: str) -> str:
    return prepared.tokenizer.decode(prepared.split(name).tokens.tolist())


LINES = "".join(f"line {number} of the text\n" for number in range(30))


class TestSplits:
    def test_by_document_the_parts_are_the_text(self, tmp_path: Path) -> None:
        prepared = made(path=write(tmp_path, "a.txt", LINES), document="line", split={"validation": 0.2, "test": 0.1})
        assert prepared.names == ["train", "validation", "test"]
        assert [prepared.split(name).num_documents for name in prepared.names] == [21, 6, 3]
        joined = [line for name in prepared.names for line in text_of(prepared, name).splitlines()]
        assert sorted(joined) == sorted(LINES.splitlines())

    def test_the_training_text_is_that_of_the_files_whatever_the_tokenizer(self, tmp_path: Path) -> None:
        (tmp_path / "owls").mkdir()
        for name, text in (("a.txt", "An Owl"), ("b.txt", "Two Owls")):
            write(tmp_path / "owls", name, text)
        words = {"kind": "word", "lowercase": True, "min_count": 1}
        assert made(words, path=str(tmp_path / "owls"), split={"validation": 0}).training_text() == "An Owl\nTwo Owls"
        prepared = made(path=write(tmp_path, "a.txt", LINES))
        assert prepared.training_text() == text_of(prepared, "train") != LINES

    def test_by_position(self, tmp_path: Path) -> None:
        prepared = made(path=write(tmp_path, "a.txt", LINES))
        assert text_of(prepared, "train") + text_of(prepared, "validation") == LINES
        assert prepared.record["split"]["by"] == "position"
        assert any("split by position" in note for note in prepared.notes)

    def test_own_files_are_used_whole(self, tmp_path: Path) -> None:
        prepared = made(
            path=write(tmp_path, "a.txt", LINES),
            validation=write(tmp_path, "v.txt", "line 31\n"),
            test=write(tmp_path, "t.txt", "line 32\n"),
        )
        assert [text_of(prepared, name) for name in prepared.names] == [LINES, "line 31\n", "line 32\n"]
        assert prepared.record["split"]["by"] == "nothing"

    def test_nothing_to_validate_on(self, tmp_path: Path) -> None:
        prepared = made(path=write(tmp_path, "a.txt", LINES), split={"validation": 0.0})
        assert prepared.names == ["train"]
        with refused(DataError, "no-split", "data.split.validation"):
            prepared.split("validation")

    def test_the_split_does_not_depend_on_the_tokenizer(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.txt", LINES)
        one, two = made("char", path=path, document="line"), made("byte", path=path, document="line")
        assert text_of(one, "validation") == text_of(two, "validation")

    def test_several_test_files_alone_and_together(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / "speeches"
        folder.mkdir()
        write(folder, "train_lm.txt", LINES)
        write(folder, "train_classify.tsv", "0\tother words here\n")
        write(folder, "test_lm_obama.txt", "line A\n")
        write(folder, "test_lm_hbush.txt", "line B\n")
        monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
        prepared = made({"kind": "word", "min_count": 1, "marks": False}, set="speeches")
        assert "other" in prepared.tokenizer.settings()["words"]  # learned from the labelled sentences
        assert prepared.tests == ["test:obama", "test:hbush"]
        assert [prepared.split(name).num_documents for name in ("test", *prepared.tests)] == [2, 1, 1]


class TestTokenizers:
    def test_are_learned_from_the_training_part_only(self, tmp_path: Path) -> None:
        prepared = made(path=write(tmp_path, "a.txt", "abc " * 50 + "xyz " * 5))
        assert prepared.tokenizer.settings() == {"characters": " abc"}
        validation = prepared.split("validation")
        assert validation.unknown_tokens == 15
        assert f"15 of {validation.num_tokens} tokens of validation are UNK" in " ".join(prepared.notes)

    def test_and_from_further_files_when_told(self, tmp_path: Path) -> None:
        prepared = made(path=write(tmp_path, "a.txt", LINES), vocabulary=[write(tmp_path, "more.txt", "ÄÖ")])
        assert {"Ä", "Ö"} <= set(prepared.tokenizer.settings()["characters"])
        assert prepared.split("train").num_characters + prepared.split("validation").num_characters == len(LINES)

    def test_a_ready_one_is_used_as_it_is(self, tmp_path: Path) -> None:
        ready = CharTokenizer("abc")
        prepared = prepare(DataConfig(path=write(tmp_path, "a.txt", LINES)), ready)
        assert prepared.tokenizer is ready

    def test_marks_stand_around_each_document(self, tmp_path: Path) -> None:
        prepared = made({"kind": "word", "min_count": 1}, path=write(tmp_path, "a.txt", LINES), document="line")
        train = prepared.split("train")
        assert (train.tokens[train.starts] == prepared.tokenizer.start_id).all()
        assert (train.tokens[np.append(train.starts[1:], train.num_tokens) - 1] == prepared.tokenizer.stop_id).all()


class TestKept:
    def test_a_second_time_nothing_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path, "a.txt", LINES)
        first = made("char", path=path, document="line")
        monkeypatch.setattr(module, "read", lambda *a, **k: pytest.fail("the text was read again"))
        second = made("char", path=path, document="line")
        np.testing.assert_array_equal(second.split("train").tokens, first.split("train").tokens)
        assert second.record == first.record
        assert isinstance(second.split("train").tokens, np.memmap)

    @pytest.mark.parametrize(
        "change",
        [{"document": "block"}, {"split": {"seed": 1}}, {"split": {"validation": 0.3}}, {"format": "tsv", "text_column": 1}],
    )
    def test_another_setting_is_another_result(self, tmp_path: Path, change: dict[str, Any]) -> None:
        path = write(tmp_path, "a.txt", LINES + "\n" + LINES)
        before = made("byte", path=path, document="line")
        after = made("byte", **{"path": path, "document": "line", **change})
        assert before.split("train").tokens.tolist() != after.split("train").tokens.tolist()

    def test_the_same_bytes_under_another_ending_are_read_anew(self, tmp_path: Path) -> None:
        text = "text\nsome words\n"
        plain = made("byte", path=write(tmp_path, "a.txt", text), split={"validation": 0.0})
        table = made("byte", path=write(tmp_path, "a.csv", text), split={"validation": 0.0})
        assert text_of(plain, "train") == text
        assert text_of(table, "train") == "some words\n"

    def test_a_changed_file_is_read_anew(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.txt", LINES)
        made(path=path)
        write(tmp_path, "a.txt", LINES.upper())
        assert text_of(made(path=path), "train").startswith("LINE 0")

    def test_moved_files_are_known_by_their_new_place(self, tmp_path: Path) -> None:
        made("byte", path=write(tmp_path, "a.txt", LINES), document="line")
        moved = made("byte", path=write(tmp_path, "b.txt", LINES), document="line")
        assert moved.split("train").where(0).startswith(str(tmp_path / "b.txt"))

    def test_damaged_tokens_are_made_again(self, tmp_path: Path, cache: Path) -> None:
        path = write(tmp_path, "a.txt", LINES)
        made(path=path)
        for file in cache.glob("tokens/*/train/tokens.bin"):
            file.write_bytes(b"")
        assert text_of(made(path=path), "train") == LINES[: len(text_of(made(path=path), "train"))]

    def test_the_test_part_is_encoded_only_when_asked_for(self, tmp_path: Path, cache: Path) -> None:
        prepared = made(path=write(tmp_path, "a.txt", LINES), test=write(tmp_path, "t.txt", "line 5\n"))
        assert len(list(cache.glob("tokens/[!.]*"))) == 1
        assert "test" not in prepared.record["splits"]
        prepared.split("test")
        assert len(list(cache.glob("tokens/[!.]*"))) == 2
        assert prepared.record["splits"]["test"]["tokens"] == 7

    def test_processes_at_once(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.txt", LINES * 50)
        start = multiprocessing.get_context("spawn")
        workers = [start.Process(target=_worker, args=(path, os.environ["GLASSFORMER_CACHE"])) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0, 0, 0]


def _worker(path: str, cache: str) -> None:
    os.environ["GLASSFORMER_CACHE"] = cache
    prepared = made("char", path=path, document="line")
    assert prepared.split("train").num_documents == 1350


class TestSays:
    def test_equal_files_are_said_and_not_refused(self, tmp_path: Path) -> None:
        prepared = made(path=write(tmp_path, "a.txt", LINES), validation=write(tmp_path, "v.txt", LINES), document="line")
        said = " ".join(prepared.notes)
        assert "The validation file has the same bytes as the train file" in said
        assert "30 of 30 documents of validation (100.0%) also occur in train" in said

    def test_repeated_and_shared_documents_with_their_lines(self, tmp_path: Path) -> None:
        prepared = made(
            path=write(tmp_path, "a.txt", "one\ntwo\none\n"), validation=write(tmp_path, "v.txt", "x\ntwo"), document="line"
        )
        said = " ".join(prepared.notes)
        assert f"1 of 3 documents of train repeat an earlier one, for example {tmp_path}/a.txt, line 3, as in" in said
        assert (
            f"1 of 2 documents of validation (50.0%) also occur in train, for example {tmp_path}/v.txt, line 2, as in" in said
        )

    def test_bad_lines_that_were_left_out(self, tmp_path: Path) -> None:
        path = write(tmp_path, "a.jsonl", '{"text": "one"}\nnot json\n{"text": "two"}\n{"txt": "three"}\n')
        with refused(DataError, "not-json", "a.jsonl", "line 2"):
            made(path=path)
        prepared = made(path=path, bad_lines="skip")
        assert prepared.record["skipped_lines"] == 2
        said = " ".join(prepared.notes)
        assert "2 bad lines were left out" in said
        assert "line 2: is not JSON" in said
        assert "line 4: there is no column 'text'" in said

    def test_the_record_is_plain_and_complete(self, tmp_path: Path) -> None:
        prepared = made(path=write(tmp_path, "a.txt", "é" * 90 + "\n"), validation=write(tmp_path, "v.txt", "éa"))
        record = json.loads(json.dumps(prepared.record, allow_nan=False))
        assert record["splits"]["train"] == {
            "documents": 1,
            "tokens": 91,
            "bytes": 181,
            "characters": 91,
            "words": 1,
            "unknown_tokens": 0,
            "unknown_share": 0.0,
            "repeated_documents": 0,
        }
        assert record["splits"]["validation"]["unknown_share"] == 0.5
        assert set(record["fingerprints"]) == {"train", "validation"}
        assert record["tokenizer"]["size"] == 3

    def test_progress_goes_from_nothing_to_everything(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_REPORT_EVERY", 0.0)
        seen: dict[str, list[tuple[int, int | None]]] = {}

        def progress(what: str, done: int, total: int | None) -> None:
            seen.setdefault(what, []).append((done, total))

        config = DataConfig(path=write(tmp_path, "a.txt", LINES), document="line")
        prepare(config, TOKENIZERS.parse("char"), progress=progress)
        assert list(seen) == ["reading", "learning the tokenizer", "encoding train and validation"]
        for steps in seen.values():
            assert [done for done, _ in steps] == sorted(done for done, _ in steps)
            assert steps[-1] == (len(LINES), len(LINES))


class TestRefuses:
    @pytest.mark.parametrize(
        ("name", "content", "reason", "where"),
        [
            ("a.txt", b"", "no-text", "a.txt"),
            ("a.txt", b" \n\n", "no-text", "a.txt"),
            ("a.txt", b"one\nt\xffo\n", "not-utf8", "line 2"),
            ("a.txt", b"one\n\0\n", "nul-byte", "line 2"),
            ("a.csv", b"a,b\n1,2\n", "no-text-column", "line 1"),
            ("a.csv", b"text,b\n1,2\n3\n", "other-number-of-columns", "line 3"),
            ("a.txt.gz", gzip.compress(b"a" * (32 << 20), mtime=0), "gzip-bomb", "a.txt.gz"),
        ],
    )
    def test_bad_text_before_anything_is_written(
        self, tmp_path: Path, cache: Path, name: str, content: bytes, reason: str, where: str
    ) -> None:
        with refused(DataError, reason, where):
            made(path=write(tmp_path, name, content))
        assert [file for file in cache.rglob("*") if file.is_file() and file.suffix != ".lock"] == []

    def test_too_little_to_hold_something_out(self, tmp_path: Path) -> None:
        with refused(DataError, "empty-split", "data.split"):
            made("byte", path=write(tmp_path, "a.txt", "x"))

    def test_a_file_that_changes_while_it_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path, "a.txt", LINES)

        def slowly(source: Any, *rest: Any, **more: Any) -> Any:
            yield from read(source, *rest, **more)
            with open(path, "a") as stream:
                stream.write("more\n")

        monkeypatch.setattr(module, "read", slowly)
        with refused(DataError, "changed-while-read"):
            made("byte", path=path)

    def test_another_text_than_the_run_began_with(self, tmp_path: Path) -> None:
        config = DataConfig(path=write(tmp_path, "a.txt", LINES))
        before = prepare(config, TOKENIZERS.parse("byte")).record
        prepare(config, TOKENIZERS.parse("byte"), expect=before)
        write(tmp_path, "a.txt", LINES + "more\n")
        with refused(DataError, "text-changed"):
            prepare(config, TOKENIZERS.parse("byte"), expect=before)


def test_standard_input_can_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LINES.encode())))
    config = DataConfig(path="-")
    first = prepare(config, TOKENIZERS.parse("char"))
    assert first.record["source"] == "standard input"
    again = prepare(config, first.tokenizer, expect=first.record)  # nothing is left in the pipe
    assert text_of(again, "train") + text_of(again, "validation") == LINES


def test_texts_as_such() -> None:
    split = tokens_of_text(CharTokenizer("ab"), ["ab", "bx"])
    assert split.tokens.tolist() == [1, 2, 2, 0]
    assert (split.starts.tolist(), split.unknown_tokens) == ([0, 2], 1)
    assert tokens_of_text(CharTokenizer("ab"), "ab").num_documents == 1
    with refused(DataError, "empty-text"):
        tokens_of_text(CharTokenizer("ab"), ["a", ""])


def test_a_file_is_read_as_the_run_read_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "other.txt", "one\ntwo\n")
    tokenizer = CharTokenizer("\nenotw")
    assert tokens_of_file(tokenizer, Path(path)).num_documents == 1
    assert tokens_of_file(tokenizer, path, DataConfig(path="x.txt", document="line")).num_documents == 2
    for name in ("train_lm.txt", "train_classify.tsv"):
        (tmp_path / "speeches").mkdir(exist_ok=True)
        write(tmp_path / "speeches", name, "0\tone\n")
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    assert tokens_of_file(tokenizer, path, DataConfig(set="speeches")).num_documents == 2  # that set is one of lines


@pytest.mark.realdata
class TestRealSets:
    @pytest.mark.parametrize(
        ("name", "tokenizer", "tokens"),
        [
            ("tinyshakespeare", "char", {"train": 1003854, "validation": 111540}),
            ("wikitext-2", "byte", {"train": 10797148, "validation": 1121681}),
        ],
    )
    def test_sizes(self, real_data: Path, name: str, tokenizer: str, tokens: dict[str, int]) -> None:
        prepared = made(tokenizer, set=name)
        assert {part: prepared.split(part).num_tokens for part in prepared.names} == tokens

    def test_wikitext_in_words(self, real_data: Path) -> None:
        prepared = made({"kind": "word", "min_count": 3}, set="wikitext-2")
        train = prepared.split("train")
        assert train.num_documents == 600
        assert abs(train.num_tokens - 2 * 600 - train.num_words) < 0.002 * train.num_words  # it was cut into words before
        assert 0.02 < train.unknown_share < 0.03

    def test_speeches_say_how_clean_they_are(self, real_data: Path) -> None:
        prepared = made({"kind": "word", "min_count": 1, "marks": False}, set="speeches")
        assert [prepared.split(name).num_documents for name in prepared.tests] == [250, 250]
        assert sum("also occur in train" in note for note in prepared.notes) == 3


PEAK = """
import resource, sys
from glassformer.data.config import DataConfig
from glassformer.data.prepare import prepare
from glassformer.data.tokenizers.base import TOKENIZERS
kind = TOKENIZERS.parse(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
prepared = prepare(DataConfig(path=sys.argv[1], document=sys.argv[3]), kind)
assert prepared.split("train").num_tokens > 1e7
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("document", ["file", "line"])
@pytest.mark.parametrize("kind", ["byte", "char", "word"])
def test_memory_does_not_grow_with_the_text(real_data: Path, tmp_path: Path, kind: str, document: str) -> None:
    """200 MB here; a text ten times as long takes the same (2.1 GB were measured once: 39 to 62 MB)."""
    text = (real_data / "wikitext-2" / "train.txt").read_bytes()
    with (tmp_path / "large.txt").open("wb") as stream:
        for _ in range(19):
            stream.write(text)
    run = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path / "large.txt"), kind, document], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 150 * 1024  # KiB
