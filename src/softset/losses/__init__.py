"""``loss(scores, target, sample_weight=None) -> scalar``: the soft metric, the surrogate, the
cross-entropy family, Dice and WMW; annealing; how large a batch must be."""
