"""The papers' experiments as data: every table a specification, one runner, one page."""

from softset.paper.runner import run_table
from softset.paper.specification import PROTOCOLS, Table, all_tables, find_table

__all__ = ["PROTOCOLS", "Table", "all_tables", "find_table", "run_table"]
