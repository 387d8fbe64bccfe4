# Public names of softset.tables beyond those of softset itself; ``__init__.py`` reads this list.

from .encoder import infer_schema as infer_schema
from .encoder import TableEncoder as TableEncoder
from .files import read_table as read_table
