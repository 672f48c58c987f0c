# docs/snippets/course_matches.py
import random
from pathlib import Path

draw, lines = random.Random(0), ["label\ttext"]
for _ in range(1500):
    one, other = draw.sample(["red", "blue", "green", "gold"], 2)
    how = draw.choice(["easily", "barely", "finally", "clearly", "soundly", "luckily", "again"])
    what = draw.choice(["mighty", "tired", "young", "old", "lucky", "proud", "brave"])
    where = draw.choice(["at home", "abroad", "in the rain", "at night", "in front of everybody"])
    won = draw.random() < 0.5
    lines.append(f"{one if won else other}\t{one} {how} {'beat' if won else 'lost to'} {what} {other} {where}")
Path("runs").mkdir(exist_ok=True)
Path("runs/matches.tsv").write_text("\n".join(lines) + "\n")
Path("runs/matches.yaml").write_text("""
data: {path: runs/matches.tsv}
tokenizer: {kind: word, min_count: 1}
objective: labels
model: {width: 32, layers: 2, heads: 2, context: 16, causal: false, head: {kind: classifier, hidden: []}}
training: {steps: 250, batch_size: 32, lr: 0.003}
evaluation: {every: 50}
""")
print("\n".join(lines[1:4]))
