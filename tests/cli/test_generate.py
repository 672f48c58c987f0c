"""``glassformer generate``."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from glassformer.cli import generate
from glassformer.run import Run

FEW = ("--max-new-tokens", 8)


@pytest.mark.parametrize("terminal", [True, False])
def test_in_a_file_stands_exactly_the_text_and_a_terminal_does_not_wait_for_it(trained, monkeypatch, terminal) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(Run, "generate", lambda self, prompts, **how: asked.update(how) or [])
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    generate.command(trained, "the")
    assert asked["exact_pieces"] is not terminal


def test_a_text_streams(cli, trained) -> None:
    answer = cli("generate", trained, "the cat", *FEW)
    assert answer.code == 0
    assert answer.out.startswith("the cat")
    assert answer.out.endswith("\n")
    assert len(answer.out) == len("the cat") + 8 + 1
    assert cli("generate", trained, "the cat", *FEW).out == answer.out  # the same seed
    assert cli("generate", trained, "the cat", *FEW, "--seed", 3).out != answer.out


def test_nothing_of_a_text_that_cannot_begin_is_written(cli, trained, tmp_path) -> None:
    """Nor does the prompt stand before what is said while the run is read."""
    shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    answer = cli("generate", tmp_path / "run", "the cat", *FEW)
    assert (answer.code, answer.out) == (1, "")
    assert cli("generate", trained, "the cat", "--max-new-tokens", 0).out == "the cat\n"


def test_as_json(cli, trained) -> None:
    document = cli("generate", trained, "the cat", *FEW, "--samples", 3, "--json").json
    assert [sample["prompt"] for sample in document["samples"]] == ["the cat"] * 3
    assert [sample["tokens"] for sample in document["samples"]] == [8, 8, 8]
    assert len({sample["text"] for sample in document["samples"]}) == 3
    streamed = cli("generate", trained, "the cat", *FEW).out
    assert streamed == "the cat" + document["samples"][0]["text"] + "\n"


def test_prompts_from_a_file(cli, trained, tmp_path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("the cat\nan old\n")
    document = cli("generate", trained, "--prompts", file, *FEW, "--temperature", 0, "--json").json
    assert [sample["prompt"] for sample in document["samples"]] == ["the cat", "an old"]
    answer = cli("generate", trained, "--prompts", file, *FEW)
    assert answer.out.startswith("--- 1\nthe cat")
    assert "--- 2\nan old" in answer.out


def test_mistakes(cli, trained, tmp_path) -> None:
    (tmp_path / "none.txt").write_text("")
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    for words, code, hint in (
        (["x", "--prompts", tmp_path / "none.txt"], 2, "both given"),
        (["--prompts", tmp_path / "none.txt"], 1, "has no prompts; write one per line"),
        (["--prompts", tmp_path / "bad.txt"], 1, "cannot be read as text"),
        (["--prompts", tmp_path / "absent.txt"], 1, "does not exist; check the path"),
        (["x", "--stop", ""], 2, "--stop '' cannot be used: an empty string would end every text at once; leave it out."),
        (["x", "--top-p", "2"], 2, "--top-p 2.0 cannot be used: it must be greater than 0 and at most 1; leave it out"),
        (["x", "--repetition-penalty", "0"], 2, "--repetition-penalty 0.0 cannot be used: it must be greater than 0"),
        (["x", "--temperature", "inf"], 2, "--temperature inf cannot be used: it must be 0 (always the best token) or greater"),
    ):
        answer = cli("generate", trained, *words, *FEW)
        assert (answer.code, hint in answer.sentence) == (code, True), (words, answer.err)


def test_a_prompt_that_is_too_long_or_unknown_is_named(cli, trained) -> None:
    answer = cli("generate", trained, "the cat " * 40 + "\u4e2d", *FEW)
    assert answer.code == 0
    assert "The prompt has 321 tokens, and the model reads at most the last" in answer.err
    assert "The prompt: 1 of 321 tokens are unknown to the tokenizer" in answer.err
    assert "The prompt" not in cli("generate", trained, "the cat", *FEW, "--samples", 2).err


def test_it_stops(cli, trained) -> None:
    text = cli("generate", trained, "the", *FEW, "--temperature", 0, "--json").json["samples"][0]["text"]
    answer = cli("generate", trained, "the", *FEW, "--temperature", 0, "--stop", text[4], "--json")
    assert answer.json["samples"][0]["text"] == text[: text.index(text[4])]
