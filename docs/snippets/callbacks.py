import glassformer as gf


class Print(gf.Callback):
    def on_start(self, training):
        self.training = training

    def on_step(self, record):
        print(f"step {record['step']}: loss {record['loss']:.2f}")

    def on_evaluation(self, record):
        print(f"step {record['step']}: validation loss {record['validation_loss']:.2f}")
        print(self.training.sample())

    def on_save(self, checkpoint):
        print(f"saved {checkpoint.name}")


small = {"training.steps": 6, "evaluation.every": 3, "model.layers": 1, "model.width": 32, "model.context": 32}
run = gf.train("docstrings-char", set=small, out="runs/callbacks", callbacks=[Print(), "csv"])
print((run.folder / "metrics.csv").read_text().splitlines()[0])
