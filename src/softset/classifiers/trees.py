"""The trees of a forest as plain arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from softset.boosting.trees import NAN_RIGHT, Tree, as_float32, check_links, leaves
from softset.storage.files import SavedFileError

Array = NDArray[Any]


class Trees(NamedTuple):
    """All trees in a row: the nodes of tree k are ``first[k]`` to ``first[k + 1]``.

    A row at a node goes on at ``left`` if ``x[feature] <= cut``, else at ``right`` (numbers within
    the tree); ``left < 0`` marks a leaf. ``value`` is ``[nodes, outputs]``: probabilities of the
    classes, or of each label.
    """

    first: Array
    feature: Array
    cut: Array
    left: Array
    right: Array
    value: Array

    @classmethod
    def of(cls, forest: Any, labels: Array | None) -> Trees:
        """The trees of a fitted forest.

        ``labels`` has for each label NaN if the forest knows it, else its constant value.
        """
        trees = [e.tree_ for e in forest.estimators_]
        first = np.cumsum([0, *(t.node_count for t in trees)])
        # scikit-learn's are [nodes, labels, classes]
        values = [
            t.value[:, 0, :] if labels is None else with_constants(t.value[:, :, 1], labels)
            for t in trees
        ]
        return cls(
            first.astype(np.int64),
            np.concatenate([t.feature for t in trees]).astype(np.int32),
            np.concatenate([t.threshold for t in trees]),
            np.concatenate([t.children_left for t in trees]).astype(np.int32),
            np.concatenate([t.children_right for t in trees]).astype(np.int32),
            np.concatenate(values),
        )

    def __call__(self, x: Array) -> Array:
        """The mean over trees of the leaves' values, ``[rows, outputs]``."""
        # scikit-learn compares float32 values with float64 cuts.
        x = as_float32(x).astype(np.float64)
        absent = np.full(len(self.left), NAN_RIGHT)
        nodes = Tree(self.feature, self.cut, self.left, self.right, absent, self.value, {})
        total = np.zeros((len(x), self.value.shape[1]))
        for leaf in leaves(x, self.first, nodes):
            total += self.value[leaf]
        return total / (len(self.first) - 1)

    def check(self, features: int) -> None:
        """Refuse arrays that would send a row outside of its tree, or to no probability."""
        check_links(self.first, self.feature, self.left, self.right, features)
        nodes, numbers = len(self.left), self.cut.dtype.kind == self.value.dtype.kind == "f"
        if not numbers or self.cut.shape != (nodes,) or self.value.shape[:-1] != (nodes,):
            raise SavedFileError("the trees need a cut and probabilities for each node.")
        fine = (self.value >= 0) & (self.value <= 1 + 1e-9)  # false for NaN
        if not fine.all() or np.isnan(self.cut).any():
            raise SavedFileError("the trees hold numbers that are no probabilities, or NaN.")


def with_constants(p: Array, labels: Array) -> Array:
    """``p`` has a column for each label that varies; the others get their constant value."""
    full = np.tile(labels, (len(p), 1))
    full[:, np.isnan(labels)] = p
    return full
