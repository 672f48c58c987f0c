"""Generation on CUDA: the same tokens by CUDA graphs, in bf16 by fused kernels. Nothing else in the project needs it."""
