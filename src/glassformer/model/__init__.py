"""Model: tensors in, tensors out. A decoder built from named parts; knows no tokenizer and no run."""
