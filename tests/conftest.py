"""One thread for each process: the matrices are small, and tests run in several workers."""

import torch

torch.set_num_threads(1)
