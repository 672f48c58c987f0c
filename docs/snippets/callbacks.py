import glassformer as gf

small = {"training.steps": 6, "evaluation.every": 3, "model.layers": 1, "model.width": 32, "model.context": 32}
run = gf.train(
    "docstrings-char",
    set=small,
    out="runs/callbacks",
    on_step=lambda record: print(f"step {record['step']}: loss {record['loss']:.2f}"),
    on_evaluation=lambda record: print(f"step {record['step']}: validation loss {record['validation_loss']:.2f}"),
    on_save=lambda checkpoint: print(f"saved {checkpoint.name}"),
)
