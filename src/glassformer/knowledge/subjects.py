"""Questions about people -> the person's name (by its capital letters), question templates, and fictitious names.

Imports no torch.
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
    """The person's name: from the first capitalised word after the first word to the last one."""
    first, _, rest = question.strip().partition(" ")
    found = _SUBJECT.search(rest.rstrip(" ?.!"))
    return found.group(0) if found else rest.rstrip(" ?.!") or first


def wordings(questions: Sequence[str]) -> list[str]:
    """Question templates with ``{name}`` that several people share, the most common first."""
    counts = Counter(question.replace(subject(question), SLOT, 1) for question in questions)
    return [wording for wording, count in counts.most_common(MOST_WORDINGS) if count > 1 and SLOT in wording]


def invented_names(names: Sequence[str], exists: Callable[[str], bool], *, many: int, seed: int) -> list[str]:
    """Up to ``many`` new names, each from one person's first and another's last word."""
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
