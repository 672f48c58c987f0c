# docs/snippets/labels_verdicts.py
import csv
import random

import glassformer as gf

WORDS = {"delivery": ["late", "lost"], "quality": ["broken", "dirty"], "price": ["dear", "charged"]}
rng = random.Random(0)
with open("complaints.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["text", "topics", "points", "stars"])
    for _ in range(900):
        said, topics = [], []
        for topic, words in WORDS.items():
            meant = rng.random() < 0.5
            said.append(rng.choice(words if meant else ["order", "shop", "thing", "letter"]))
            topics += [topic] if meant else []
        rng.shuffle(said)
        points = 40 - sum({"delivery": 5, "quality": 12, "price": 3}[topic] for topic in topics)
        table.writerow([" and ".join(said), ";".join(topics), points, 5 - len(topics)])

recipe = {
    "data": {"path": "complaints.csv", "split": {"validation": 0.3}},
    "tokenizer": {"kind": "word", "min_count": 1},
    "model": {"width": 32, "layers": 1, "heads": 2, "context": 16, "causal": False, "head": "classifier"},
    "training": {"steps": 100, "batch_size": 32, "lr": 0.01},
}
for objective, column in (("multilabel", "topics"), ("regression", "points"), ("regression", "stars")):
    own = {**recipe, "objective": objective, "data": {**recipe["data"], "label_column": column}}
    study = gf.compare(own, vary={"model.mixer": ["none"]}, seeds=6, out=f"without-attention-{column}")
    print(column, study.verdicts[0].headline)
