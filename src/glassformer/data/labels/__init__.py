"""Labelled texts: files -> rows -> padded batches."""
