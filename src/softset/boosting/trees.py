"""Trees as plain arrays, checked once: whatever library grew them, no file text reaches its native
code, and rows are scored here. ``leaves`` is the one way down a tree, boosted or of a forest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from softset.storage.files import SavedFileError
from softset.typing import Array

# Where a node sends a value that is missing: NaN is read as 0; NaN goes left or right; 0 and NaN
# both go left or right.
AS_ZERO, NAN_LEFT, NAN_RIGHT, ZERO_LEFT, ZERO_RIGHT = range(5)

# Rows scored at a time: enough to hide the cost of a call, few enough for bounded memory.
_BLOCK = 65536


class Tree(NamedTuple):
    """The nodes of one tree; node 0 is the root, and children come after their parent. Trees that
    are put together follow each other, and their node numbers count from their own root.

    ``left`` and ``right`` are node numbers, both -1 at a leaf. A node in ``sets`` sends its
    categories left and every other one right; the others compare ``x[feature]`` with ``cut``.
    """

    feature: Array
    cut: Array
    left: Array
    right: Array
    absent: Array  # one of AS_ZERO ... ZERO_RIGHT
    value: Array  # of the leaves: a number, or one for each output
    sets: dict[int, Array]


@dataclass(frozen=True)
class BoostedTrees:
    """All trees in a row: the nodes of tree k are ``first[k]`` to ``first[k + 1]``.

    The score of a row is ``start`` plus the leaf that it reaches in each tree; tree k adds to
    ``output[k]``. Everything is computed in the type of ``start``, tree by tree, as the library
    does, so that the sums round alike. ``text`` is what the trees were read from.
    """

    features: int
    start: Array
    output: Array
    first: Array
    nodes: Tree
    strict: bool  # left means x < cut, not x <= cut
    text: str

    @classmethod
    def of(
        cls,
        trees: Iterable[Tree],
        output: Sequence[int] | Array,
        start: Array,
        *,
        features: int,
        text: str,
        strict: bool = False,
    ) -> BoostedTrees:
        """Trees put together, and refused if they do not fit together."""
        trees = list(trees)
        if not trees:
            raise SavedFileError("there are no trees.")
        first = np.cumsum([0, *(len(t.left) for t in trees)])
        sets = {
            int(at) + node: values
            for at, tree in zip(first, trees, strict=False)
            for node, values in tree.sets.items()
        }
        fields = zip(*(tree[:6] for tree in trees), strict=True)
        feature, cut, left, right, absent, value = (np.concatenate(arrays) for arrays in fields)
        nodes = Tree(feature, cut, left, right, absent, value, sets)
        output = np.asarray(output, dtype=np.int64)
        check_links(first, nodes.feature, nodes.left, nodes.right, features)
        if len(output) != len(trees) or ((output < 0) | (output >= len(start))).any():
            raise SavedFileError(f"each tree must add to one of {len(start)} outputs.")
        if not (np.isfinite(nodes.value).all() and np.isfinite(start).all()):
            raise SavedFileError("a leaf has a value that is not finite.")
        if np.isnan(nodes.cut).any():
            raise SavedFileError("a tree compares with NaN.")
        return cls(features, start, output, first, nodes, strict, text)

    def check(self, features: int, outputs: int) -> None:
        """Refuse trees that do not belong to a model with so many features and outputs."""
        if (self.features, len(self.start)) != (features, outputs):
            raise SavedFileError(
                f"the trees are for {self.features} features and {len(self.start)} outputs, the "
                f"model for {features} and {outputs}."
            )

    def splits(self) -> Array:
        """How many nodes ask for each feature, ``[features]``."""
        inner = self.nodes.left >= 0
        return np.bincount(self.nodes.feature[inner], minlength=self.features)

    def __call__(self, x: Array) -> Array:
        """Scores of ``x [rows, features]``: ``[rows]``, or ``[rows, outputs]`` for more."""
        if x.ndim != 2 or x.shape[1] != self.features:
            raise ValueError(
                f"x must be [rows, {self.features}], as the trees were grown, got {list(x.shape)}."
            )
        z = np.empty((len(self.start), len(x)))
        for at in range(0, len(x), _BLOCK):
            z[:, at : at + _BLOCK] = self._block(x[at : at + _BLOCK])
        return z[0] if len(z) == 1 else np.ascontiguousarray(z.T)

    def _block(self, x: Array) -> Array:
        z = np.repeat(self.start[:, None], len(x), 1)
        reached = leaves(
            x.astype(self.start.dtype, copy=False), self.first, self.nodes, self.strict
        )
        for output, leaf in zip(self.output.tolist(), reached, strict=True):
            z[output] += self.nodes.value.take(leaf)
        return z


def leaves(x: Array, first: Array, nodes: Tree, strict: bool = False) -> Iterator[Array]:
    """For each tree the leaf that every row of ``x [rows, features]`` reaches, ``[rows]``.

    The nodes of tree k are ``first[k]`` to ``first[k + 1]``. ``strict``: left means ``x < cut``,
    not ``x <= cut``. Values are compared in the type of ``x``.
    """
    columns = np.ascontiguousarray(x.T)
    missing = np.isnan(columns)
    filled = np.where(missing, columns.dtype.type(0), columns) if missing.any() else columns
    feature, cut, left, right, absent, _, sets = nodes
    everyone = np.arange(len(x))
    for root in first[:-1].tolist():
        leaf = np.empty(len(x), dtype=np.int64)
        groups = [(root, everyone)]  # rows go down the tree in groups
        while groups:
            node, rows = groups.pop()
            if left[node] < 0:
                leaf[rows] = node
                continue
            rule = absent.item(node)
            source = columns if rule in (NAN_LEFT, NAN_RIGHT) else filled
            v = source[feature[node]].take(rows)
            to_left = _goes_left(v, cut.item(node), rule, sets.get(node), strict)
            if len(rows) == 1:
                groups.append((root + (left if to_left[0] else right).item(node), rows))
                continue
            for child, part in ((left, to_left), (right, ~to_left)):
                if len(some := rows.compress(part)):
                    groups.append((root + child.item(node), some))
        yield leaf


def _goes_left(v: Array, cut: float, absent: int, values: Array | None, strict: bool) -> Array:
    """Which of ``v`` a node sends left: ``values`` are its categories, None if it compares."""
    if values is not None:
        is_member = _is_member(v, values)
        return is_member | np.isnan(v) if absent == NAN_LEFT else is_member
    if absent == NAN_LEFT:  # comparisons with NaN are false
        return ~(v >= cut if strict else v > cut)
    to_left: Array = v < cut if strict else v <= cut
    if absent == ZERO_LEFT:
        return to_left | (v == 0)
    return to_left & (v != 0) if absent == ZERO_RIGHT else to_left


def _is_member(v: Array, values: Array) -> Array:
    """Whether the category ``v``, a number or NaN, is one of the sorted ``values``."""
    size = int(values[-1]) + 1 if len(values) else 0
    codes = np.where((v >= 0) & (v < size), v, size).astype(np.int64)
    if size > 64 * len(values) + 4096:  # a few large numbers: a table would be mostly empty
        return np.isin(codes, values)
    table = np.zeros(size + 1, dtype=bool)
    table[values] = True
    return table.take(codes)


def as_float32(x: Array) -> Array:
    """Inputs of trees that compare float32; what is too large becomes the largest number."""
    largest = float(np.finfo(np.float32).max)
    return np.clip(x, -largest, largest).astype(np.float32)


def check_links(first: Array, feature: Array, left: Array, right: Array, features: int) -> None:
    """Refuse nodes that would send a row outside of its tree, in a circle or to no feature.

    The nodes of tree k are ``first[k]`` to ``first[k + 1]``; ``left`` and ``right`` count from
    ``first[k]``, and both are negative at a leaf. Nothing larger than the arrays is allocated.
    """
    arrays = (first, feature, left, right)
    nodes = len(left)
    fine = all(a.ndim == 1 and a.dtype.kind in "iu" for a in arrays) and nodes > 0
    fine = fine and len(feature) == len(right) == nodes and len(first) > 1
    fine = fine and first[0] == 0 and first[-1] == nodes and bool((first[1:] > first[:-1]).all())
    if not fine:
        raise SavedFileError("the trees do not fit together: their arrays differ in length.")
    sizes = np.diff(first)
    root, size = np.repeat(first[:-1], sizes), np.repeat(sizes, sizes)
    node, inner = np.arange(nodes) - root, left >= 0
    children = []
    for side in (left, right):
        fine = fine and bool(((side > node) & (side < size))[inner].all())
        children.append((root + side)[inner])
    linked = np.concatenate(children)
    fine = fine and bool((right[~inner] < 0).all()) and len(np.unique(linked)) == len(linked)
    if not fine:
        raise SavedFileError("the trees do not fit together: a node has a child that is not its.")
    if not bool(((feature >= 0) & (feature < features))[inner].all()):
        raise SavedFileError(f"a tree asks for a feature that is not among the {features}.")
