"""Data: texts -> documents -> tokens -> batches. Knows no model."""
