"""``serve`` refuses what is no folder; the rest is tried in tests/web."""

from __future__ import annotations


def test_no_folder_is_a_sentence(cli, tmp_path) -> None:
    answer = cli("serve", tmp_path / "absent")
    assert answer.code == 2
    assert "is not a folder" in answer.sentence
