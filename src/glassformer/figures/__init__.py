"""Figures: arrays -> matplotlib figures that people can restyle and publish. Knows nothing of runs."""
