import torch

import glassformer as gf

small = {"training.steps": 5, "model.layers": 2, "model.width": 32, "model.context": 32}
run = gf.train("docstrings-char", set=small, out="runs/altered")
print(run.evaluate().loss, "nats per token;", run.evaluate().metrics["loss"].low, "is the lower end of its interval")
hook = run.model.blocks[1].register_forward_hook(lambda block, inputs, output: torch.zeros_like(output))
print(run.evaluate(model=run.model).loss, "with the second block silenced")
hook.remove()
print(run.token_losses("Return the name.").round(2))
