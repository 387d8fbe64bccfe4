# Public names of softset.decisions beyond those of softset itself; ``__init__.py`` reads this list.

from .expected import expected_dice_mask as expected_dice_mask
