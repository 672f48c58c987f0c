"""Tuning methods: which weights of a pretrained encoder are trained, and what is added. One file each; see ``base``."""
