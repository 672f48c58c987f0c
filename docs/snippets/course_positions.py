# docs/snippets/course_positions.py
from glassformer.figures.encode import save_figure
from glassformer.figures.intervals import IntervalRow, difference_intervals
from glassformer.study.study import Study

study, rows = Study.load("runs/positions"), []
for one in study.verdicts:
    of, seeds = one.difference, one.evidence.seed_differences if one.evidence else ()  # no evidence where it is invalid
    print(f"{one.variant}: {one.verdict}; difference {of}; by seed {[round(seed, 3) for seed in seeds]}")
    rows.append(IntervalRow(one.variant, one.verdict, of.value, of.low, of.high, seeds))
picture = difference_intervals(rows, margin=study.plan.same_within, unit=study.metric.unit)
save_figure(picture, "runs/positions.svg")
