"""Scores, labels and a step -> ``Confusion``.

``steps`` says how hard a decision is, ``problem`` checks and arranges the arguments once, ``cells``
has the counts, ``kernels`` makes them fast."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
