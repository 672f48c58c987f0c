# docs/snippets/labels_verdicts.py
import csv
import random

import glassformer as gf

AREAS = {  # things, bad words, good words; the points and stars that a complaint costs
    "delivery": ("parcel letter courier", "late lost slow", "quick safe prompt", 5, 1),
    "quality": ("lamp chair kettle", "broken dirty loud", "solid clean quiet", 12, 2),
    "price": ("bill fee refund", "wrong hidden missing", "fair clear paid", 3, 1),
}


def write(file, order_matters):
    """Texts about three things. ``order_matters``: what is fine is "not late", and only its place tells what is not."""
    rng = random.Random(0)
    with open(file, "w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["text", "topics", "points", "stars"])
        for _ in range(1500):
            said, topics, points, stars = [], [], 40, 5
            for topic, (things, bad, good, costs, fewer) in AREAS.items():
                thing, bad, good = (rng.choice(words.split()) for words in (things, bad, good))
                if rng.random() < 0.5:
                    said.append(f"{thing} was {bad}")
                    topics.append(topic)
                    points, stars = points - costs, stars - fewer
                else:
                    said.append(f"{thing} not {bad}" if order_matters else f"{thing} was {good}")
            rng.shuffle(said)
            table.writerow([" ".join(said), ";".join(topics), points, stars])


model = {"width": 32, "layers": 1, "heads": 2, "context": 16, "causal": False, "head": "classifier", "positions": "rotary"}
training = {"steps": 400, "batch_size": 32, "lr": 0.02}
for name, order_matters in (("order", True), ("words", False)):
    write(f"{name}.csv", order_matters)
    for objective, column in (("multilabel", "topics"), ("regression", "points"), ("regression", "stars")):
        data = {"path": f"{name}.csv", "label_column": column, "split": {"validation": 0.3}}
        words = {"kind": "word", "min_count": 1}
        recipe = {"data": data, "tokenizer": words, "objective": objective, "model": model, "training": training}
        study = gf.compare(recipe, vary={"model.positions": ["none"]}, seeds=6, out=f"{name}-{column}")
        print(name, column, study.verdicts[0].headline)
