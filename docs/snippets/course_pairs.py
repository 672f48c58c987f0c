# docs/snippets/course_pairs.py
import glassformer as gf
from glassformer.figures.save import save_figure

reverse = {
    "data.set": {"kind": "rewriting", "task": "reverse", "length": 8},
    "tokenizer": {"kind": "word", "min_count": 1, "marks": False},
    "model.embeddings": "shared",
    "model.positions": "learned",
    "training.steps": 600,
    "evaluation.every": 300,
}
for name, change in {"whole": {}, "no cross-attention": {"model.cross": "none"}}.items():
    run = gf.train("numbers-in-words", set=reverse | change, out=f"runs/pairs-{name.replace(' ', '-')}", threads=1)
    result = run.evaluate("test")
    print(f"{name}: {result.metrics['exact_match'].value:.3f} of the new words right;", run.translate("g l a s s")[0].text)
    for note in result.notes:
        if "source" in note:
            print(note)

look = gf.load("runs/pairs-whole").look("g l a s f o r m")
letters = len(look.queries) - 1
best = max(
    look.head_table(),
    key=lambda row: sum(look.attention[row["layer"], row["head"], n, letters - 1 - n] for n in range(letters)),
)
save_figure(look.figure(best["layer"], best["head"]), "runs/pairs.svg")
print(f"layer {best['layer']}, head {best['head']}:")
for n in range(letters):
    weights = look.attention[best["layer"], best["head"], n]
    print(f"  {look.queries[n]} is written while reading {look.keys[int(weights.argmax())]} (weight {weights.max():.2f})")
