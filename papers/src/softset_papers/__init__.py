"""The papers' tables and theorems, run with softset: our numbers beside the published ones."""

__version__ = "0.2.0"
