"""scikit-learn's contract: networks, linear models (and scorecards), boosting and forests for a
metric; ``recipes`` names them; ``model`` is an encoder and a classifier in one file; ``export``."""
