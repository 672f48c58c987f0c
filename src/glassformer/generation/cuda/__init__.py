"""Generation on CUDA: batch.py's work by CUDA graphs, in bf16 by fused kernels. Only generate.py asks for it."""
