"""The kinds of columns: number, date, category. To add one: its file, and its entry here."""

from softset.tables.kinds.base import Dropped, Fitted
from softset.tables.kinds.category import Category
from softset.tables.kinds.date import Date
from softset.tables.kinds.number import Number

# In the order in which a column is asked for its kind: the last takes what is left.
KINDS: tuple[type[Fitted], ...] = (Dropped, Number, Date, Category)
