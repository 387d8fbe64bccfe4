"""scikit-learn's contract: networks, boosting and forests for a metric; ``model`` is an encoder and
a classifier in one file."""
