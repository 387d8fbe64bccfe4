"""Every table, by paper: a specification here, its published values in ``published``.

To add one: its values as ``[ID.BLOCK]`` in the TOML file of the paper, and a ``Table`` in the
module of the paper.
"""

from __future__ import annotations

from dataclasses import replace

from softset.checks import nearest
from softset_papers.published import values_of
from softset_papers.specification import Table
from softset_papers.tables import paper_000, paper_001, paper_002, paper_003, paper_004


def all_tables() -> dict[str, Table]:
    """Every table and theorem by id, with its published values."""
    from softset_papers.theory import CLAIMS

    modules = (paper_000, paper_001, paper_002, paper_003, paper_004)
    tables = [table for module in modules for table in module.TABLES]
    claims = [Table(c.id, c.title, kind="claim") for c in CLAIMS.values()]
    found = [*tables, Table("theory", "All theorems", kind="claim"), *claims]
    return {table.id: replace(table, published=values_of(table.id)) for table in found}


def find_table(name: str) -> Table:
    """A table by its id, such as ``000-table-1``."""
    tables = all_tables()
    if name not in tables:
        hint = nearest(name, tables)
        raise ValueError(f"ID must be a table of 'softset paper list', got {name!r}.{hint}")
    return tables[name]
