# docs/snippets/look.py
import glassformer as gf
from glassformer.figures.save import save_figure

small = {"training.steps": 5, "model.layers": 2, "model.width": 32, "model.context": 32, "checkpoint.film": 3}
run = gf.train("docstrings-char", set=small, out="runs/look")
look = run.look("Return the name.")
print(look.attention.shape, "layer, head, query, key; rows that are wrong:", look.faults)
print({name: place.axes for name, place in look.places.by_name.items() if name.startswith("blocks.1.attention")})
print(look.at("blocks.0.feedforward.neurons").shape, look.rollout().shape, look.losses.round(1)[:4])
print(look.head_table()[0])
save_figure(look.figure(layer=1, head=0), "map.svg")

with look.without(layer=1, head=0):  # the network without that head, as long as the with lasts
    print("loss without it:", look.again().losses[1:].mean().round(3))
texts = [run.look(text).ids for text in ("Return a list.", "Return a set.", "True if empty.")]
effects = look.effects(texts, how="mean")
print("without head 0.0:", effects.of(0, 0), effects.unit)

other = run.look("Remove the item.")  # as many tokens
with look.patched(other, "blocks.0.after", positions=[2, 3, 4, 5]):
    print("with the other's vectors there:", look.again().losses[1:].mean().round(3))
