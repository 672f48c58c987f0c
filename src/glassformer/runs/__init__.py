"""Runs: the folder a recipe leaves behind; its names, its records, its checkpoints."""
