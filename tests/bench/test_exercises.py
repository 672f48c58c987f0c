"""bench/exercises.py in short form, on small files of the same shape: the grid of SST-2, and a job that fails."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.bench_scripts import load_script
from tests.encoders import make_folder

from glassformer.foundation.files import write_atomically


@pytest.mark.slow
def test_the_grid_lists_its_cells_and_opens_dev_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    for name, many in {"train": 240, "dev": 40}.items():  # words below w20 are negative, the others positive
        texts = [" ".join(f"w{rng.randrange(4, 20) + 16 * (at % 2)}" for _ in range(8)) for at in range(many)]
        write_atomically(tmp_path / f"data/sst2/{name}.txt", "".join(f"{at % 2} {text}\n" for at, text in enumerate(texts)))
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("tests.encoders.PLACES", 520)
    encoder = make_folder(tmp_path / "encoder")
    words = ["--out", str(tmp_path / "out"), "--encoder", str(encoder), "--steps", "80", "--jobs", "1"]
    found = load_script("exercises").main([*words, "grid"])
    assert found["failed"] == {}
    cells = found["grid"]["cells"]
    assert [cell["set"] for cell in cells] == [{"training.lr": 1e-3}, {"training.lr": 3e-2}]
    assert sum(cell["chosen"] for cell in cells) == 1
    assert found["grid"]["best"].keys() == {"train", "validation", "test:dev"}
    assert [opening["split"] for opening in found["grid"]["openings"]] == ["test:dev"]


def test_a_job_that_fails_is_named_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_script("exercises")

    def fails(*given: object) -> None:
        raise RuntimeError("no GPU")

    monkeypatch.setattr(script, "names", fails)
    monkeypatch.setattr(script, "words", lambda *given: {"learned": 1})
    found = script.main(["--out", str(tmp_path / "out"), "names", "words"])
    assert found["failed"] == {"names": "no GPU"}
    assert found["words"] == {"learned": 1}
