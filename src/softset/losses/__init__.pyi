# Public names of softset.losses beyond those of softset itself; ``__init__.py`` reads this list.

from .batch_size import batch_size_for as batch_size_for
from .batch_size import confusion_error_bound as confusion_error_bound
from .loss import Ramp as Ramp
from .pointwise import MeanAbsoluteErrorLoss as MeanAbsoluteErrorLoss
from .surrogate import balanced_class_weight as balanced_class_weight
