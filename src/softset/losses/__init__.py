"""``loss(scores, target, sample_weight=None) -> scalar``: the soft metric, the surrogate, the
cross-entropy family; annealing; counts over ranks and over time; how large a batch must be."""
