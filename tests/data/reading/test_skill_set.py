"""The generated skills: every line obeys its rule, disjoint splits, the same files for the same settings, entropy by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refused

from glassformer.data.config import DataConfig
from glassformer.data.disk_cache import cache_folder
from glassformer.data.prepare import prepare
from glassformer.data.reading.named_sets import find_set
from glassformer.data.reading.skill_set import SkillConfig
from glassformer.data.tokenizers.byte import ByteTokenizerConfig
from glassformer.foundation.errors import ConfigError

TASKS = ["recall", "hops", "copying", "arithmetic"]


def files(settings: dict[str, Any]) -> dict[str, Path]:
    found = find_set(SkillConfig.parse(settings))
    assert found.validation is not None
    sources = {"train": found.train, "validation": found.validation, **found.tests}
    return {name: source.files[0] for name, source in sources.items()}


def pairs(text: str) -> list[tuple[str, str]]:
    assert len(text) % 2 == 0
    return list(zip(text[::2], text[1::2]))


def obeys(task: str, line: str, hops: int) -> int:
    """The size of a line, after its rule was found to hold."""
    if task == "arithmetic":
        told, result = line.split("=")
        first, second = told.split("+")
        assert len(first) == len(second) == len(result) - 1
        assert sum(int("".join(reversed(number))) for number in (first, second)) == int(result[::-1])
        return len(first)
    before, after = line.removesuffix(".").split("|")
    assert line.endswith(".")
    if task == "copying":
        assert before == after
        return len(before)
    known, asked = dict(pairs(before)), pairs(after)
    assert len(known) == len(pairs(before))
    if task == "recall":
        assert all(known[letter] == digit for letter, digit in asked)
        assert len(asked) == 2 * len(known)
        return len(known)
    assert {letter for letter, _ in asked} == known.keys() == set(known.values())
    assert len(asked) == len(known)
    for letter, end in asked:
        met = [letter]
        for _ in range(hops):
            met.append(known[met[-1]])
        assert met[-1] == end
        assert len(set(met)) == len(met)
    return len(known)


@pytest.mark.parametrize(("task", "length", "hops"), [*((task, 8, 2) for task in TASKS), ("hops", 9, 3), ("copying", 3, 2)])
def test_every_line_obeys_its_rule_and_is_in_one_split(task: str, length: int, hops: int) -> None:
    settings = {"task": task, "documents": 300, "held_out": 40, "length": length}
    lines = {
        split: file.read_text().splitlines()
        for split, file in files(settings | ({"hops": hops} if task == "hops" else {})).items()
    }
    assert {split: len(own) for split, own in lines.items()} == {"train": 300, "validation": 40, "test": 40}
    every = [line for own in lines.values() for line in own]
    assert len(set(every)) == len(every)
    least = max((length + 1) // 2, hops + 2 if task == "hops" else 1)
    assert {obeys(task, line, hops) for line in every} == set(range(least, length + 1))


@pytest.mark.parametrize("task", TASKS)
def test_lines_fit_a_window_and_have_the_bytes_that_are_said(task: str) -> None:
    text = files({"task": task, "documents": 2000})["train"].read_text()
    whole, told = SkillConfig.parse({"task": task}).line_bytes
    assert max(map(len, text.splitlines(keepends=True))) <= 33
    assert len(text) / 2000 == pytest.approx(whole, rel=0.03)
    assert 0.2 < told / whole <= 0.5
    starts = np.cumsum([len(line) for line in text.splitlines(keepends=True)])
    assert len({*(starts % 64)}) == 64  # windows begin at every place of a line


def test_entropy_and_bytes_by_hand() -> None:
    def known(**settings: Any) -> tuple[float, tuple[float, float]]:
        config = SkillConfig.parse(settings)
        return config.nats, config.line_bytes

    assert known(task="recall", length=1) == (pytest.approx(math.log(26 * 10)), (9.0, 2.0))  # k1|k1k1.
    # one or two letters, half the lines each
    assert known(task="copying", length=2)[0] == pytest.approx(math.log(2) + 1.5 * math.log(26))
    assert known(task="copying", length=2)[1] == (6.0, 2.5)
    assert known(task="arithmetic", length=1) == (pytest.approx(2 * math.log(10)), (7.0, 2.0))  # 1+2=30
    rings = 26 * 25 * 24 * 23 / 4 * math.factorial(4) ** 2  # by their arrows' order, and the order of the letters asked
    assert known(task="hops", length=4) == (pytest.approx(math.log(rings)), (19.0, 4.0))


def test_the_same_settings_give_the_same_bytes_and_other_seeds_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = {"task": "recall", "documents": 50, "held_out": 5}
    first = {split: file.read_bytes() for split, file in files(settings).items()}
    assert files({**settings, "seed": 1})["train"].read_bytes() != first["train"]
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    assert {split: file.read_bytes() for split, file in files(settings).items()} == first
    assert first["train"].split(b"\n")[0] == b"g1l6s8|s8g1s8s8l6l6."


def test_it_is_split_as_its_files_are() -> None:
    data = prepare(
        DataConfig.parse({"set": {"kind": "skill", "task": "hops", "documents": 50, "held_out": 7}}), ByteTokenizerConfig()
    )
    assert [data.split(name).num_documents for name in ("train", "validation", "test")] == [50, 7, 7]


@pytest.mark.parametrize(
    "settings",
    [
        {"task": "recall", "length": 27},
        {"task": "hops", "length": 3},
        {"task": "hops", "length": 6, "hops": 5},
        {"task": "recall", "hops": 2},
        {"task": "sorting"},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        SkillConfig.parse(settings)


def test_more_lines_than_there_are_is_refused() -> None:
    with refused(ConfigError, "too-few-different-lines"):
        files({"task": "arithmetic", "length": 1, "documents": 100, "held_out": 10})
