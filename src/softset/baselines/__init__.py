"""What the papers compare with, each with the signature ``loss(scores, target, sample_weight)``."""

from softset.baselines.adversarial import AdversarialF1Loss
from softset.baselines.dice import DiceLoss, ExampleDiceLoss
from softset.baselines.wmw import WMWLoss

__all__ = ["AdversarialF1Loss", "DiceLoss", "ExampleDiceLoss", "WMWLoss"]
