"""The state keeps a few curves open and reads on in them."""

from __future__ import annotations

from glassformer.runs.records import MetricsLog
from glassformer.web.app_state import MOST_CURVES, AppState


def test_curves_are_kept_and_read_on(folder, make_run) -> None:
    state = AppState.of(folder)
    run = state.folder.run("one")
    curves = state.curves(run)
    MetricsLog(run.metrics_file).append({"step": 9, "loss": 1.0})
    assert state.curves(run) is curves
    assert curves.thinned("loss")["step"] == [1, 2, 9]
    for number in range(MOST_CURVES):
        state.curves(make_run(folder / f"more-{number}"))
    assert state.curves(run) is not curves
