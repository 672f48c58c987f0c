# docs/snippets/course_positions.py
from glassformer.figures.intervals import IntervalRow, difference_intervals
from glassformer.figures.save import save_figure
from glassformer.study.study import Study

study, rows = Study.load("runs/positions"), []
for one in study.verdicts:
    of, by_seed = one.difference, one.evidence.seed_differences if one.evidence else ()
    print(f"{one.variant}: {one.verdict}; difference {of}; by seed {[round(seed, 3) for seed in by_seed]}")
    rows.append(IntervalRow(one.variant, one.verdict, of.value, of.low, of.high, by_seed))
picture = difference_intervals(rows, margin=study.plan.same_within, unit=study.metric.unit)
save_figure(picture, "runs/positions.svg")
