import torch

import glassformer as gf

recipe = gf.load_recipe("docstrings-char", {"training.steps": 5, "model.layers": 1, "model.width": 32, "model.context": 32})
print(gf.plan(recipe).cost.parameters, "parameters")
run = gf.train(recipe, out="runs/python")
model, ids = run.model, torch.tensor([run.tokenizer.encode("Return the")])

seen = {}
hook = model.blocks[0].attention.mixer.pattern.register_forward_hook(lambda tap, args, out: seen.update(pattern=out))
model(ids)
hook.remove()
print("rows of the attention pattern sum to", seen["pattern"].sum(-1).unique())
print(gf.load("runs/python").summary()["status"])
