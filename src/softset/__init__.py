"""softset: train a classifier for the metric it is judged by.

Public names are listed in ``__init__.pyi`` and load on first use, so that ``import softset`` is
quick.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]  # noqa: PLE0604
