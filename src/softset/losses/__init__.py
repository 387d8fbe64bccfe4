"""``loss(scores, target, sample_weight=None) -> scalar``: the soft metric, the surrogate, the
cross-entropy family; annealing; counts over ranks and over time; how large a batch must be."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
