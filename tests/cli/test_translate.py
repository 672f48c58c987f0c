"""``glassformer translate``: a text, a file, pairs, JSON, and what is refused."""

from __future__ import annotations

import pytest

from glassformer.experiment import train

RECIPE = {
    "data": {"set": {"kind": "rewriting", "task": "reverse", "pairs": 60, "held_out": 8, "length": 4}},
    "tokenizer": {"kind": "word", "marks": False, "min_count": 1},
    "model": {"kind": "encoder-decoder", "width": 16, "layers": 1, "heads": 2, "context": 16},
    "objective": "translate",
    "training": {"steps": 2, "batch_size": 8, "compile": False},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(RECIPE, out=tmp_path_factory.mktemp("translate") / "run").folder


def test_a_text_and_a_file(cli, run, tmp_path):
    one = cli("translate", run, "a b c", "--beams", 2)
    assert one.code == 0
    assert len(one.out.splitlines()) == 2
    assert one.out.splitlines()[1].startswith("    or: ")
    (tmp_path / "texts.txt").write_text("a b\nc\n")
    many = cli("translate", run, "--file", tmp_path / "texts.txt", "--json")
    assert [row["source"] for row in many.json["translations"]] == ["a b", "c"]
    (tmp_path / "pairs.tsv").write_text("source\ttarget\na b\tb a\n")
    written = cli("translate", run, "--file", tmp_path / "pairs.tsv", "--predictions", tmp_path / "out.txt")
    assert written.code == 0
    assert (tmp_path / "out.txt").read_text() == f"{cli('translate', run, 'a b').out.splitlines()[0]}\n"
    assert cli("ask", run, "a b", "--json").json["answers"][0]["question"] == "a b"
    assert (
        cli("translate", run, "a b", "--temperature", 1.0, "--seed", 3).out
        == cli("translate", run, "a b", "--temperature", 1.0, "--seed", 3).out
    )


def test_what_is_refused(cli, run, tmp_path):
    assert cli("translate", run).code == 2
    assert cli("translate", run, "a", "--file", "x").code == 2
    assert cli("translate", run, " ").code == 1
    assert cli("translate", run, "--file", tmp_path / "absent.txt").code == 1
    assert cli("translate", run, "a", "--beams", 2, "--temperature", 1).code == 2
    (tmp_path / "text.txt").write_text("abcdefgh " * 40)
    model = {"width": 8, "layers": 1, "heads": 1, "context": 8}
    other = {"data": {"path": str(tmp_path / "text.txt")}, "model": model, "training": {"steps": 1, "batch_size": 2}}
    plain = train(other, out=tmp_path / "plain").folder
    assert cli("translate", plain, "a").code == 2
