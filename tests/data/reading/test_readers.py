"""Bytes to text: what is refused and on which line, and that pieces and lines lose nothing."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refused

from glassformer.data.reading import readers
from glassformer.data.reading.readers import cut_between_words, lines, open_bytes, pieces, to_text
from glassformer.foundation.errors import DataError


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PIECE_BYTES", 11)


def write(folder: Path, data: bytes, name: str = "a.txt") -> Path:
    file = folder / name
    file.write_bytes(data)
    return file


class TestRefuses:
    def test_invalid_utf8_on_its_line(self, tmp_path: Path) -> None:
        file = write(tmp_path, b"one\ntwo\nth\xffree\n")
        with refused(DataError, "not-utf8", "a.txt", "line 3") as caught:
            list(pieces(file))
        assert caught.value.line == 3

    def test_a_nul_byte_on_its_line(self, tmp_path: Path) -> None:
        with refused(DataError, "nul-byte", "a.txt", "line 2"):
            list(pieces(write(tmp_path, b"one\nt\0wo\n")))

    def test_a_character_cut_off_at_the_end(self, tmp_path: Path) -> None:
        with refused(DataError, "not-utf8", "line 2"):
            list(pieces(write(tmp_path, b"one\n\xe6\x88")))

    @pytest.mark.usefixtures("small_pieces")
    def test_the_line_is_right_in_a_later_piece(self, tmp_path: Path) -> None:
        with pytest.raises(DataError) as caught:
            list(pieces(write(tmp_path, b"a word\n" * 20 + b"\xc3\n")))
        assert caught.value.line == 21

    def test_a_line_without_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "MAX_DOCUMENT", 100)
        file = write(tmp_path, b"short\n" + b"x" * 101)
        with refused(DataError, "too-long", "line 2", "100 bytes"):
            list(lines(file))

    def test_a_gzip_bomb(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "UNPACKED_FREE", 1 << 20)
        file = write(tmp_path, gzip.compress(b"a" * (8 << 20)), "bomb.txt.gz")
        assert file.stat().st_size < 9000
        with refused(DataError, "gzip-bomb", "bomb.txt.gz", "100 times"):
            list(pieces(file))

    def test_gzip_that_is_cut_off(self, tmp_path: Path) -> None:
        packed = gzip.compress(os.urandom(5000).hex().encode())
        with refused(DataError, "damaged-gzip"):
            list(pieces(write(tmp_path, packed[:-100], "a.gz")))

    def test_gzip_with_a_flipped_byte(self, tmp_path: Path) -> None:
        packed = bytearray(gzip.compress(os.urandom(5000).hex().encode()))
        packed[2000] ^= 0xFF
        with refused(DataError, "damaged-gzip"):
            list(pieces(write(tmp_path, bytes(packed), "a.gz")))

    @pytest.mark.parametrize(
        ("head", "said"),
        [
            (b"PK\x03\x04", "a zip archive"),
            (b"PAR1", "a Parquet file"),
            (b"\x80\x04\x95\x01", "a pickle, which is never read"),
        ],
    )
    def test_what_is_no_text_by_its_name(self, tmp_path: Path, head: bytes, said: str) -> None:
        with pytest.raises(DataError, match=said), open_bytes(write(tmp_path, head)):
            pass

    def test_a_missing_file_and_a_device(self, tmp_path: Path) -> None:
        with refused(DataError, "unreadable"), open_bytes(tmp_path / "nothing"):
            pass
        with refused(DataError, "not-a-file"), open_bytes(Path("/dev/zero")):
            pass


class TestLosesNothing:
    @pytest.mark.usefixtures("small_pieces")
    def test_pieces_joined_are_the_file_and_lines_are_counted(self, tmp_path: Path) -> None:
        text = "Zwölf Boxkämpfer\njagen 戦場の\n\n😀 über den Sylter Deich.\n" * 7
        found = list(pieces(write(tmp_path, text.encode())))
        assert len(found) > 20
        assert "".join(piece for _, piece in found) == text
        done = ""
        for line, piece in found:
            assert line == 1 + done.count("\n")
            done += piece

    @settings(deadline=None, max_examples=60)
    @given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80))
    def test_any_text(self, tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
        file = write(tmp_path_factory.mktemp("t"), b"x" + text.encode())  # x: a byte-order mark in the middle is text
        original, readers.PIECE_BYTES = readers.PIECE_BYTES, 5
        try:
            assert "".join(piece for _, piece in pieces(file)) == "x" + text
            assert b"".join(line for _, line in lines(file)).decode() == "x" + text
        finally:
            readers.PIECE_BYTES = original

    def test_gzip_is_told_by_content(self, tmp_path: Path) -> None:
        file = write(tmp_path, gzip.compress(b"one\ntwo"), "no-ending")
        assert list(lines(file)) == [(1, b"one\n"), (2, b"two")]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    @pytest.mark.parametrize("pack", [bytes, gzip.compress])
    def test_utf_16_is_given_as_utf_8(self, pack: Callable[[bytes], bytes], encoding: str, tmp_path: Path) -> None:
        file = write(tmp_path, pack("ein Ä\nzwei 戦\n".encode(encoding)))
        assert list(lines(file)) == [(1, "ein Ä\n".encode()), (2, "zwei 戦\n".encode())]
        assert list(pieces(file)) == [(1, "ein Ä\nzwei 戦\n")]

    def test_an_honest_archive_passes_the_ratio(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(readers, "UNPACKED_FREE", 1000)
        text = b" ".join(b"%d" % (number * number) for number in range(40_000))
        file = write(tmp_path, gzip.compress(text), "a.gz")
        assert "".join(piece for _, piece in pieces(file)).encode() == text

    def test_a_byte_order_mark_is_dropped(self, tmp_path: Path) -> None:
        file = write(tmp_path, b"\xef\xbb\xbfone\n")
        assert list(pieces(file)) == [(1, "one\n")]
        assert list(lines(file)) == [(1, b"one\n")]


def test_cuts_after_a_word_and_before_a_space() -> None:
    assert cut_between_words("one two. three") == len("one")  # not after the period: some tokenizers join it to the space
    assert cut_between_words("one two") == 3
    assert cut_between_words("unbroken") == 8
    assert cut_between_words("a" + "." * 9000, reach=50) == 9001


def test_checked_text_names_the_line_within_the_data() -> None:
    with pytest.raises(DataError) as caught:
        to_text(b"ok\nok\n\x80", "f", 10)
    assert caught.value.line == 12
