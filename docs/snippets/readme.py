import glassformer as gf

run = gf.train("docstrings-char", set={"training.steps": 20, "model.layers": 1}, out="runs/first")
print(run.evaluate())
print(run.generate("The ", max_new_tokens=40)[0].text)
print(gf.check(run.model).passed)
