"""From scores to decisions: the only place where a probability becomes a
decision."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
