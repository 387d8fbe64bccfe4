"""One network (``single``) or many at once (``members``): data, batches, networks, recipes, early
stopping, checkpoints, progress."""
