# docs/snippets/course_positions.py
from glassformer.figures.encode import save_figure
from glassformer.figures.intervals import IntervalRow, difference_intervals
from glassformer.study.study import Study

study, rows = Study.load("runs/positions"), []
for one in study.verdicts:
    of = one.difference
    print(
        f"{one.variant}: {one.verdict}; difference {of}; by seed {[round(seed, 3) for seed in one.evidence.seed_differences]}"
    )
    rows.append(IntervalRow(one.variant, one.verdict, of.value, of.low, of.high, one.evidence.seed_differences))
picture = difference_intervals(rows, margin=study.plan.same_within, unit=study.metric.unit)
save_figure(picture, "runs/positions.svg")
