"""The desk keeps a few curves open and reads on in them."""

from __future__ import annotations

from glassformer.runs.records import MetricsLog
from glassformer.web.desk import MOST_CURVES, Desk


def test_curves_are_kept_and_read_on(folder, make_run) -> None:
    desk = Desk.of(folder)
    run = desk.place.run("one")
    curves = desk.curves(run)
    MetricsLog(run.metrics_file).append({"step": 9, "loss": 1.0})
    assert desk.curves(run) is curves
    assert curves.thinned("loss")["step"] == [1, 2, 9]
    for number in range(MOST_CURVES):
        desk.curves(make_run(folder / f"more-{number}"))
    assert desk.curves(run) is not curves
