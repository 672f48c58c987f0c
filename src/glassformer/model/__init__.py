"""Model: tensors in, tensors out. Decoders and encoders built from named parts; knows no tokenizer and no run."""
