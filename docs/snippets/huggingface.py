# docs/snippets/huggingface.py
import torch

import glassformer as gf

changes = {"training.steps": 5, "model.layers": 1, "model.width": 32, "model.context": 32}
run = gf.train("docstrings-char", set=changes, out="runs/mine")
exported = run.save_pretrained("mine-hf")  # model.safetensors, config.json, tokenizer.json, a model card
print(exported.class_name)

again = gf.load("mine-hf")  # a Hugging Face folder is opened as a run, which lives in the cache
ids = torch.tensor([run.tokenizer.encode("Return the")])
print("same ids:", again.tokenizer.encode("Return the") == ids[0].tolist())
print("same scores:", torch.equal(again.model(ids), run.model(ids)))
