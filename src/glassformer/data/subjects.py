"""Questions about people -> whom each is about, in which wordings people are asked about, and names that nobody has.

Whom a question is about is found by its capital letters. Imports no torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from glassformer.foundation.seeds import derive_seed

NAME = r"[^\W\d_a-zß-öø-ÿ][\w'’.-]*"  # a word that begins with a capital
_SUBJECT = re.compile(rf"{NAME}(?:\s+\S+)*\s+{NAME}|{NAME}")
SLOT = "{name}"
MOST_WORDINGS = 4


def subject(question: str) -> str:
    """Whom a question is about: from its first capitalised word (its first word aside) to its last."""
    first, _, rest = question.strip().partition(" ")
    found = _SUBJECT.search(rest.rstrip(" ?.!"))
    return found.group(0) if found else rest.rstrip(" ?.!") or first


def wordings(questions: Sequence[str]) -> list[str]:
    """The wordings that several people are asked about in, the most common first: questions with ``{name}`` in them."""
    counts = Counter(question.replace(subject(question), SLOT, 1) for question in questions)
    return [wording for wording, count in counts.most_common(MOST_WORDINGS) if count > 1 and SLOT in wording]


def invented_names(names: Sequence[str], exists: Callable[[str], bool], *, many: int, seed: int) -> list[str]:
    """Names made of one person's first and another's last word, which nobody has: up to ``many``."""
    known = sorted(set(names))
    firsts = sorted({name.split()[0] for name in known if " " in name})
    lasts = sorted({name.split()[-1] for name in known if " " in name})
    generator = np.random.Generator(np.random.PCG64(derive_seed(seed, "invented names")))
    found: dict[str, None] = {}
    for _ in range(20 * many if firsts else 0):
        first, last = (group[int(generator.random() * len(group))] for group in (firsts, lasts))
        name = f"{first} {last}"
        if name not in found and not exists(name):
            found[name] = None
        if len(found) == many:
            break
    return list(found)
