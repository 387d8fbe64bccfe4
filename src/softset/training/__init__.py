"""One network (``single``) or many at once (``members``): data, batches, networks, recipes and
their phases, the loop both share, early stopping, checkpoints, progress; ``linear`` models."""
