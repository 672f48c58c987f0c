"""Triton kernels of a decoding step. Modules here import Triton: import them only where ``model.kernels.AVAILABLE``."""
