"""One network (``single``) or many at once (``members``): data, batches, networks, recipes and
their phases, the loop both share, early stopping, checkpoints, progress; ``linear`` models."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
