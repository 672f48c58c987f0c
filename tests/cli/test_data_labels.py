"""``glassformer data labels``: what is wrong with a table, for people and as JSON."""

from __future__ import annotations


def test_a_table_with_a_contradiction(cli, tmp_path) -> None:
    file = tmp_path / "t.csv"
    rows = [f"it did bark {n};dog\nit did purr {n};cat" for n in range(15)]
    file.write_text("\n".join(["text;animal", *rows, "it did BARK 3;cat"]) + "\n")
    found = cli("data", "labels", file, "--label-column", "animal", "--json").json
    assert found["texts"] == 31
    assert found["classes"] == {"cat": 16, "dog": 15}
    assert [one["labels"] for one in found["contradictions"]] == [["dog", "cat"]]
    assert "t.csv:32" in {one["id"] for one in found["suspects"]}
    shown = cli("data", "labels", file, "--label-column", "animal")
    assert shown.code == 0
    assert "Contradictory labels" in shown.out
    assert "semicolons" in shown.out
    assert cli("data", "labels", file).code == 1  # there is no column called label


def test_a_text_of_several_lines_is_one_row(cli, tmp_path) -> None:
    file = tmp_path / "t.csv"
    rows = [f'"it did bark\n{n}",dog\n"it did purr\n{n}",cat' for n in range(15)]
    file.write_text("\n".join(["text,label", *rows, '"it did bark\n3",cat']) + "\n")
    assert "it did bark 3" in cli("data", "labels", file).out
