"""Training: steps, optimizers, schedules, signals. Takes a model and batches; knows no tokenizer and no recipe."""
