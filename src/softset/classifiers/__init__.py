"""scikit-learn's contract: networks, linear models (and scorecards), boosting and forests for a
metric; ``threshold`` tunes the threshold of any classifier, ``ensemble`` blends ours; ``recipes``
names them; ``model`` is an encoder and a classifier in one file; ``export``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
