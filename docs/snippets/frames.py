import glassformer as gf

small = {"training.steps": 6, "evaluation.every": 3, "model.layers": 1, "model.width": 32, "model.context": 32}
run = gf.train("docstrings-char", set=small, out="runs/frames")
print(run.metrics()[["step", "loss", "validation_loss"]].round(2))

study = gf.compare("docstrings-char", {"model.norm": ["rms"]}, set=small, seeds=2, on="inline", out="studies/frames")
print(study.frame("seed"))
study.figure("values").savefig("values.pdf")
