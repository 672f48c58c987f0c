"""Explorations: one file per question about attention; ``base.explore`` runs them by name."""
