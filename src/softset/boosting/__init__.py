"""The metric as an objective of boosting: the objective, and one interface with two libraries
behind it. The trees that they grow are kept, saved, read and scored here (``trees``)."""
