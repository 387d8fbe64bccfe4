"""Data: built-in sets, users' files, the papers' sets."""

from softset.datasets.builtin import load_synthetic as load_synthetic

__all__ = ["load_synthetic"]
