import glassformer as gf

small = {
    "model.width": 16,
    "model.layers": 1,
    "model.heads": 2,
    "model.context": 16,
    "training.steps": 60,
    "evaluation.every": 60,
}
study = gf.compare(
    "docstrings-char",
    vary={"model.mixer": ["none"], "model.merge": ["reweight"]},
    set=small,
    seeds=2,  # enough to see it run; verdicts need 6 or more
    out="studies/first",
)
for verdict in study.verdicts:
    print(f"[{verdict.verdict}] {verdict.headline}")
print(study.report())
