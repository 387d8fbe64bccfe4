# Public names of softset.classifiers beyond those of softset itself; ``__init__.py`` reads this
# list.

from .explaining import explain_row as explain_row
from .explaining import permutation_importances as permutation_importances
from .explaining import worst_mistakes as worst_mistakes
from .model import save_model as save_model
