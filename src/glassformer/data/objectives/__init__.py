"""Objectives: what a batch asks of the model. One file per variant; ``base`` holds the interface and the slot."""
