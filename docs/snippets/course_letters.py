# docs/snippets/course_letters.py
import random
from pathlib import Path

draw = random.Random(0)
stretches = ["".join(draw.sample("abcdefghijklmnopqrstuvwxyz", draw.randint(5, 12))) for _ in range(6000)]
Path("runs").mkdir(exist_ok=True)
Path("runs/letters.txt").write_text("".join((stretch * 7)[:32] + "\n" for stretch in stretches))
Path("runs/letters.yaml").write_text("""
data: {path: runs/letters.txt, document: line, split: {validation: 0.02, test: 0.02}}
tokenizer: char
model: {width: 64, layers: 2, heads: 4, context: 32, positions: alibi}
training: {steps: 400, batch_size: 32, lr: 0.01, optimizer: muon, schedule: linear}
evaluation: {every: 100}
checkpoint: {film: 10}
seed: 1
""")
print((stretches[0] * 7)[:32])
