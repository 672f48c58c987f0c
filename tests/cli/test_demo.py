"""``glassformer demo``: the whole way, here in a few steps of a tiny model."""

from __future__ import annotations

import pytest

FEW = [
    word
    for setting in (
        "training.steps=3",
        "model.width=8",
        "model.heads=2",
        "model.layers=1",
        "model.context=16",
        "training.batch_size=2",
        "evaluation.every=3",
    )
    for word in ("--set", setting)
]


@pytest.mark.usefixtures("unchecked")
def test_the_whole_way_and_again(cli, tmp_path, tiny_text, monkeypatch) -> None:
    words = ["demo", "--out", tmp_path / "demo", *FEW, "--set", f"data.path={tiny_text}"]
    document = cli(*words, "--json").json
    assert set(document) >= {"run", "report", "metrics", "baselines", "sample"}
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "<html" in page
    assert 'src="http' not in page
    answer = cli(*words)  # again: it goes on, or has nothing left to do
    assert answer.code == 0
    assert f"Report: {tmp_path / 'demo' / 'report.html'}" in answer.out
