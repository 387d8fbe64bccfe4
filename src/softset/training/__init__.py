"""Many networks at once: networks, batches, recipes, early stopping, checkpoints; and ``fit``, the
plain loop for one network."""

from softset.training.checkpoints import SavedFileError
from softset.training.loop import Member, Trained, train_members
from softset.training.plain import fit
from softset.training.recipes import RECIPES, Phase

__all__ = ["RECIPES", "Member", "Phase", "SavedFileError", "Trained", "fit", "train_members"]
