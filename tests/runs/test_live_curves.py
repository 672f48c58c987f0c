"""Curves read once and then at their end; thinning keeps the ends, every spike and what is no number."""

from __future__ import annotations

import json
import threading

from glassformer.runs.live_curves import Curves
from glassformer.runs.records import MetricsLog


def test_reads_on_where_it_stopped(tmp_path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1, "loss": 3.0, "tainted": True, "note": "text"})
    curves = Curves(log.file)
    assert curves.update()
    assert not curves.update()
    log.append({"step": 2, "loss": float("nan"), "validation_loss": 2.5})
    with log.file.open("a") as stream:
        stream.write('{"step": 3, "lo')
    assert curves.update()
    assert curves.keys == ["loss", "validation_loss"]
    assert curves.thinned("loss") == {"step": [1, 2], "value": [3.0, None], "of": 2}
    with log.file.open("a") as stream:
        stream.write('ss": 1.5}\n')
    curves.update()
    assert curves.thinned("loss", skip=2) == {"step": [3], "value": [1.5], "of": 1}
    assert curves.thinned("absent")["of"] == 0


def test_a_file_that_was_rewritten_is_read_anew(tmp_path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in range(5):
        log.append({"step": step, "loss": float(step)})
    curves = Curves(log.file)
    curves.update()
    log.cut_after(2)
    assert curves.update()
    assert (curves.rewritten, curves.thinned("loss")["step"]) == (1, [0, 1, 2])
    log.file.unlink()
    assert curves.update()
    assert curves.keys == []


def test_thinning_loses_no_spike(tmp_path) -> None:
    values = [0.001 * step for step in range(20_000)]
    values[7777], values[12_345] = 99.0, -99.0
    lines = [json.dumps({"step": step, "loss": value}) for step, value in enumerate(values)]
    lines[500] = '{"step": 500, "loss": "nan"}'
    file = tmp_path / "metrics.jsonl"
    file.write_text("\n".join(lines) + "\n")
    curves = Curves(file)
    curves.update()
    found = curves.thinned("loss", points=400)
    assert 300 < len(found["step"]) < 700
    assert {99.0, -99.0, None} <= set(found["value"])
    assert (found["step"][0], found["step"][-1], found["of"]) == (0, 19_999, 20_000)
    near = curves.thinned("loss", low=7770, high=7780, points=400)
    assert near["step"] == list(range(7769, 7782))


def test_read_and_thinned_by_several_threads_at_once(tmp_path) -> None:
    file, faults = tmp_path / "metrics.jsonl", []
    file.write_text("".join(f'{{"step": {step}, "loss": 1.5}}\n' for step in range(20_000)))
    curves, done = Curves(file), threading.Event()
    curves.update()

    def thin() -> None:
        while not done.is_set():
            try:
                curves.thinned("loss")
            except Exception as error:
                faults.append(error)

    def read() -> None:
        while not done.is_set():
            try:
                curves.update()
            except Exception as error:
                faults.append(error)

    threads = [threading.Thread(target=work) for work in (thin, thin, read)]
    for thread in threads:
        thread.start()
    steps = range(20_000, 22_000)
    for step in steps:
        with file.open("a") as stream:
            stream.write(f'{{"step": {step}, "loss": 1.5}}\n')
    done.set()
    for thread in threads:
        thread.join()
    curves.update()
    assert faults == []
    assert curves.thinned("loss", points=10**6)["step"] == list(range(steps.stop))
