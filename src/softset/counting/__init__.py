"""Scores, labels and a step -> ``Confusion``.

``steps`` says how hard a decision is, ``problem`` checks and arranges the arguments once, ``cells``
has the counts, ``kernels`` makes them fast."""
