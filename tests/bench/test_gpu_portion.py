"""bench/gpu_portion.py: jobs end in time or by it, and what they gave is in the archive."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from tests.bench_scripts import load_script


def read(file: Path) -> dict[str, str]:
    with tarfile.open(file) as packed:
        return {one.name: packed.extractfile(one).read().decode() for one in packed}  # type: ignore[union-attr]


def test_every_job_has_its_time_and_all_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_script("gpu_portion")
    packing = "test -e began && cp -r began/trial packed.txt"
    jobs = {
        "study": script.Job("mkdir began; echo {processes} {minutes} > began/trial; sleep 300", then=packing, tiny="; true"),
        "broken": script.Job("echo no such thing; exit 3"),
        "good": script.Job("cat packed.txt > good.txt"),
        "atlas": script.Job("echo run >> {keep}/atlas.jsonl", then="cp {keep}/atlas.jsonl ."),
    }
    monkeypatch.setattr(script, "JOBS", jobs)
    monkeypatch.setattr(script, "GRACE", 5.0)
    assert script.main(["--out", str(tmp_path), "study=0.03", "broken=1", "good=1"]) == 1
    files = read(tmp_path / "portion.tar.gz")
    assert files.keys() == {"study.log", "broken.log", "good.log", "jobs.json", "packed.txt", "good.txt"}
    assert files["packed.txt"] == files["good.txt"] == "14 0.1\n"
    done = json.loads(files["jobs.json"])
    assert [(one["job"], one["code"]) for one in done] == [("study", None), ("broken", 3), ("good", 0)]
    assert done[0]["seconds"] < 60
    assert script.main(["--out", str(tmp_path / "a"), "--keep", str(tmp_path / "keep"), "atlas=1"]) == 0
    assert script.main(["--out", str(tmp_path / "b"), "--keep", str(tmp_path / "keep"), "atlas=1"]) == 0
    assert read(tmp_path / "b" / "portion.tar.gz")["atlas.jsonl"] == "run\nrun\n"  # it went on from the first
    monkeypatch.setitem(jobs, "lost", script.Job("true", then="echo no room >&2; exit 4"))  # trained, and not packed
    assert script.main(["--out", str(tmp_path / "c"), "lost=1"]) == 1
    files = read(tmp_path / "c" / "portion.tar.gz")
    assert (json.loads(files["jobs.json"])[0]["then"], files["lost.log"]) == (4, "no room\n")
    with pytest.raises(FileExistsError):  # a portion is never mixed with an earlier one
        script.main(["--out", str(tmp_path), "good=1"])


@pytest.mark.parametrize("words", [["nothing=3"], ["trainer=3"], ["trainer"], ["positions=3", "--add", "no-such-file"]])
def test_a_mistake_costs_no_time(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        load_script("gpu_portion").main(["--out", str(tmp_path), *words])
    assert stopped.value.code == 2
    assert not list(tmp_path.iterdir())
