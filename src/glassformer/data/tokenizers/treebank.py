"""Words and punctuation in the manner of the Penn Treebank, and back to running text.

"They don't." -> They do n't . Each run of characters without white space is cut on its own, so a text may be cut at any
space. Quotes keep their shape (the Treebank's `` and '' would change the text). Knows no vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import regex

LONGEST_WORD = 100
LONGEST_QUOTATION = 199  # words after a ' in which the one that closes it must come
RULES = 1  # raised when the same text would be cut differently; saved with every vocabulary

# Words whose period belongs to them. Not here: words that end sentences more often than they are cut short (No., Sat.).
_ABBREVIATIONS = (
    r"Mr|Mrs|Ms|Messrs|Dr|Prof|Rev|Hon|Gov|Sen|Rep|Pres|Gen|Col|Lt|Maj|Capt|Sgt|Cmdr|Adm|Supt|St|Mt|Ft|Jr|Sr|"
    r"Inc|Ltd|Corp|Bros|Dept|Univ|Assn|Ave|Blvd|Rd|vs|etc|al|cf|ca|approx|ed|eds|vol|vols|pp|fig|figs|"
    r"Jan|Feb|Apr|Aug|Sept|Oct|Nov|Dec|Calif|Mass|Conn|Penn|Ariz|Tex|Fla|Va|Wash|Ph\.D"
)

_TOKEN = regex.compile(
    rf"""
      <unk> | @[-.,]@                                      # as in wikitext, which is already cut
    | (?:{_ABBREVIATIONS})\.(?![\w.])
    | (?:\p{{L}}\.){{2,}}(?!\w)                             # U.S. and e.g.
    | (?<![\w'’])(?!I\.)\p{{Lu}}\.(?=\P{{L}}*$)            # the J. of a name; but I. ends a sentence
    | \.{{2,}} | …
    | -{{2,}} | [—–]
    | `` | ''
    | [nN]['’][tT](?!\w)                                   # n't standing alone
    | ['’](?i:s|m|d|ll|re|ve|em|tis|twas|til|cause|\p{{N}}0s)(?!\w)
    | (?<![\w)])[-+]?\.?\p{{N}}+(?:[-.,:/]\p{{N}}+)*(?:[-]?\p{{L}}[\w-]*\w|\p{{L}})?  # 1,000 and 10:30 and -5 and 4-year-old
    | [\w\p{{M}}]+(?:[-./'’·][\w\p{{M}}]+)*                 # words, with what joins their parts
    | .                                                    # any other sign, alone
    """,
    regex.VERBOSE | regex.DOTALL,
)

# What is split off the end of a word, and words that are two in one (with the place between them).
_CLITIC = regex.compile(r"(?<=\w)(?:n['’]t|['’](?:s|m|d|ll|re|ve))$", regex.IGNORECASE)
_TWO_IN_ONE = {
    "cannot": 3,
    "gonna": 3,
    "gotta": 3,
    "wanna": 3,
    "gimme": 3,
    "lemme": 3,
    "'tis": 2,
    "'twas": 2,
    "’tis": 2,
    "’twas": 2,
}
_ONE_AGAIN = {(word[:place], word[place:]) for word, place in _TWO_IN_ONE.items() if word != "cannot"}

_NO_SPACE_BEFORE = regex.compile(r"[.,;:?!)\]}%…”’]|\.{2,}|n['’]t|['’](?:s|m|d|ll|re|ve)|''", regex.IGNORECASE)
_NO_SPACE_AFTER = frozenset(["(", "[", "{", "$", "#", "£", "€", "¿", "¡", "“", "‘", "``"])


def hugging_face_cuts() -> tuple[str, ...]:
    """The same rules for the ``tokenizers`` library: patterns that cut each run between spaces, one after the other.

    Its engine writes the end of a text as \\z and counts six signs of Latin-1 (as in m²) among the letters. A word longer
    than ``LONGEST_WORD`` loses its clitics there and keeps them here.
    """
    two = "|".join(rf"(?<=\A{regex.escape(word[:place])}){regex.escape(word[place:])}\z" for word, place in _TWO_IN_ONE.items())
    clitic = _CLITIC.pattern.removeprefix(r"(?<=\w)").removesuffix("$")
    cuts = (
        f"(?mx){_TOKEN.pattern.replace('$)', chr(92) + 'z)')}",
        f"(?i){two}",
        rf"(?i)(?<=\w){clitic}(?={clitic}*\z)",
    )
    return tuple(cut.replace(r"\w", r"[\w&&[^²³¹¼½¾]]") for cut in cuts)


def words_of(text: str) -> list[str]:
    """The words and signs of ``text``, in order."""
    return [word for run in text.split() for word in cut_run(run)]


def cut_run(run: str) -> list[str]:
    """The words and signs of one run without white space."""
    found: list[str] = []
    for token in _TOKEN.findall(run):
        found.extend(_cut_word(token))
    return found


def _cut_word(word: str) -> list[str]:
    if not 3 <= len(word) <= LONGEST_WORD:  # beyond that it is no word, and looking for its parts would take for ever
        return [word]
    if place := _TWO_IN_ONE.get(word.lower()):
        return [word[:place], word[place:]]
    after: list[str] = []
    while match := _CLITIC.search(word):  # shouldn't've has two
        after.insert(0, match.group())
        word = word[: match.start()]
    return [word, *after]


def running_text(words: Sequence[str]) -> str:
    """Words and signs as a person would write them; what cutting lost (which space was where) is guessed."""
    parts: list[str] = []
    glued, before = True, ""  # glued: no space before the next word
    opened = {'"': False, "'": False}
    for number, word in enumerate(words):
        closes = opens = False
        if word in opened:
            # A single ' that no other follows is a possessive: the nations' flags.
            closes = opened[word] or (word == "'" and word not in words[number + 1 : number + 1 + LONGEST_QUOTATION])
            opens = not closes
            opened[word] = opens
        joined = closes or _NO_SPACE_BEFORE.fullmatch(word) or (before.lower(), word.lower()) in _ONE_AGAIN
        if not glued and not joined:
            parts.append(" ")
        parts.append(word)
        glued, before = opens or word in _NO_SPACE_AFTER, word
    return "".join(parts)


def stable_words(words: Sequence[str]) -> int:
    """How many of the words, from the first on, ``running_text`` writes the same whatever follows: a ' waits for another."""
    opened = False
    for number, word in enumerate(words):
        if word == "'":
            following = words[number + 1 : number + 1 + LONGEST_QUOTATION]
            if not opened and "'" not in following and len(following) < LONGEST_QUOTATION:
                return number
            opened = not opened and "'" in following
    return len(words)
