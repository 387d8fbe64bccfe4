"""``Confusion`` -> number: what metrics share, the formulas, areas under curves, metrics of the
user's own, and the table ``METRICS``."""
