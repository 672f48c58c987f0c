"""Tuning: which numbers of a pretrained encoder are trained, and what is added to it. One file per way; see ``base``."""
