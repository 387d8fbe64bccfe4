# Public names of softset.training beyond those of softset itself; ``__init__.py`` reads this list.

from .accumulation import Accumulation as Accumulation
from .stack import Member as Member
from .stack import Trained as Trained
from .members import train_members as train_members
from .phases import Phase as Phase
from .single import fit as fit
