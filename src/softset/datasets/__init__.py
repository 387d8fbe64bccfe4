"""Data: built-in sets, users' files, the papers' sets."""

from softset.datasets.builtin import load_synthetic as load_synthetic
from softset.datasets.papers import PAPER_SETS as PAPER_SETS
from softset.datasets.papers import PaperSet as PaperSet
from softset.datasets.papers import equitability as equitability
from softset.datasets.papers import load_paper_set as load_paper_set
from softset.datasets.splits import make_parts as make_parts
from softset.datasets.splits import split_rows as split_rows

__all__ = [
    "PAPER_SETS",
    "PaperSet",
    "equitability",
    "load_paper_set",
    "load_synthetic",
    "make_parts",
    "split_rows",
]
