"""Pre-tokenization for byte-pair encoding: text -> words -> word counts.

Merges never cross word boundaries, so a text is first split into words, and each distinct word is counted. A level defines
words, their initial symbols, and how tokens are decoded to bytes. Counting streams the text and holds distinct words only.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, final

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from glassformer.data.tokenizers.base import utf8

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's words: a contraction; letters, digits or other signs, each with one space before them; or white space."""

MAX_DISTINCT = 1 << 22
"""With more distinct chunks than this (about 600 MB), the rarer half is dropped."""

_PROGRESS_BYTES = 1 << 20

# White space is Unicode's; Python's \s has four control characters more.
_SPACE, _SOLID = r"[^\S\x1c-\x1f]", r"[\S\x1c-\x1f]"
_CHUNK = re.compile(f"{_SPACE}*{_SOLID}+|{_SPACE}+")
_SOLIDS = re.compile(f"{_SOLID}+")


def _signs_of_bytes() -> tuple[str, ...]:
    """A visible sign for each byte, as GPT-2 chose them: printable Latin-1 stands for itself, the others follow from U+0100."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    signs = {byte: chr(byte) for byte in printable} | {byte: chr(256 + place) for place, byte in enumerate(others)}
    return tuple(signs[byte] for byte in range(256))


BYTE_SIGNS = _signs_of_bytes()
_BYTE_OF = {sign: byte for byte, sign in enumerate(BYTE_SIGNS)}


class Level(ABC):
    """Defines the initial symbols. ``complete``: the alphabet covers every text. ``end``: the end-of-word marker."""

    name: ClassVar[str]
    complete: ClassVar[bool]
    end: ClassVar[str | None] = None

    @abstractmethod
    def words(self, text: str) -> list[str]:
        """The words of ``text``, in order."""

    @abstractmethod
    def symbols(self, word: str) -> list[str]:
        """The symbols a word begins as, spelled as in a vocabulary."""

    @abstractmethod
    def alphabet(self, words: Iterable[str]) -> list[str]:
        """All symbols that training begins with, in the order of their ids."""

    @abstractmethod
    def bytes_of(self, token: str) -> bytes:
        """The text a token stands for."""

    @abstractmethod
    def join(self, pieces: Sequence[bytes]) -> bytes:
        """A text from the ``bytes_of`` of its tokens."""


@final
class ByteLevel(Level):
    """Symbols are the 256 bytes, words are GPT-2's: every text can be written, and comes back byte for byte."""

    name = "byte"
    complete = True
    # This regex engine and no other, because engines know different versions of Unicode (17,144 letters apart when
    # tried), and a tokenizer.json is cut by this one wherever it is used.
    _split: ClassVar[Split] = Split(Regex(GPT2_PATTERN), "isolated")

    def words(self, text: str) -> list[str]:
        return [word for word, _ in self._split.pre_tokenize_str(text)]

    def symbols(self, word: str) -> list[str]:
        return [BYTE_SIGNS[byte] for byte in word.encode()]

    def alphabet(self, words: Iterable[str] = ()) -> list[str]:
        return sorted(BYTE_SIGNS)

    def bytes_of(self, token: str) -> bytes:
        return bytes([_BYTE_OF[sign] for sign in token])

    def join(self, pieces: Sequence[bytes]) -> bytes:
        return b"".join(pieces)


@final
class CharLevel(Level):
    """Symbols are characters, the last one of a word carries an end mark. White space only separates: a space comes back."""

    name = "char"
    complete = False
    end = "</w>"

    def words(self, text: str) -> list[str]:
        return _SOLIDS.findall(text)

    def symbols(self, word: str) -> list[str]:
        return [*word[:-1], word[-1] + self.end]

    def alphabet(self, words: Iterable[str]) -> list[str]:
        """The characters seen, then those seen at the end of a word with its mark."""
        inside: set[str] = set()
        last: set[str] = set()
        for word in words:
            inside.update(word)
            last.add(word[-1] + self.end)
        return [*sorted(inside), *sorted(last)]

    def bytes_of(self, token: str) -> bytes:
        ends = token.endswith(self.end)
        return (token.removesuffix(self.end) + " " * ends).encode()

    def join(self, pieces: Sequence[bytes]) -> bytes:
        return b"".join(pieces).removesuffix(b" ")


LEVELS: Mapping[str, Level] = {level.name: level for level in (ByteLevel(), CharLevel())}


def chunks(text: str) -> list[str]:
    """Chunks of white space and the text after it. No word of any level crosses a chunk boundary.

    So anything done by word can be cached by distinct chunk, of which a text has few.
    """
    return _CHUNK.findall(text)


def count_words(
    texts: Iterable[str], level: Level, progress: Callable[[int], None] | None = None, limit: int = MAX_DISTINCT
) -> Counter[str]:
    """Word counts over all texts. ``progress`` gets the bytes done since its last call.

    With more than ``limit`` distinct chunks, the rarest so far are dropped.
    """
    seen: Counter[str] = Counter()
    for text in texts if progress is None else _reporting(texts, progress):
        seen.update(chunks(text))
        if len(seen) > limit:
            seen = Counter(dict(seen.most_common(limit // 2)))
    words: Counter[str] = Counter()
    for chunk, count in seen.items():
        utf8(chunk)  # raises where a character is cut in half
        for word in level.words(chunk):
            words[word] += count
    return words


def _reporting(texts: Iterable[str], progress: Callable[[int], None]) -> Iterator[str]:
    done = 0
    for text in texts:
        yield text
        done += len(text.encode("utf-8", "surrogatepass"))
        if done >= _PROGRESS_BYTES:
            progress(done)
            done = 0
    progress(done)
