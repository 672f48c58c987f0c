"""Objectives: what a model is asked, from the batch to the verdict. One file per variant; ``base`` holds the interface."""
