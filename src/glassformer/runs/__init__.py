"""The files of a run: the folder a recipe leaves behind; its names, its records, its checkpoints."""
