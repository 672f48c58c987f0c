"""Evaluation: a model and tokens -> figures with their names, their intervals and the trivial figures beside them."""
