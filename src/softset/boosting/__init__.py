"""The metric as an objective of boosting: the objective, and one interface with two libraries
behind it."""
