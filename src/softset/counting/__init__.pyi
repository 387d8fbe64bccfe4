# Public names of softset.counting beyond those of softset itself; ``__init__.py`` reads this list.

from .numerics import ratio as ratio
from .steps import STEPS as STEPS
