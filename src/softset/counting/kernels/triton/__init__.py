"""The kernels in Triton, for GPUs: docs/kernels.md."""
