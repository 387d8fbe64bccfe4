"""Forests of scikit-learn as plain arrays, for files without pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils.validation import validate_data

from softset.boosting.trees import NAN_LEFT, NAN_RIGHT, Tree, as_float32, check_links, leaves
from softset.storage.arrays import pack_array, plain, unpack_array
from softset.storage.files import SavedFileError
from softset.typing import Array, ArrayLike, Labels, Rows, State

if TYPE_CHECKING:
    from sklearn.ensemble._forest import ForestClassifier

# Settings that a file holds; others, such as weights of classes, are left out.
_PLAIN = (type(None), bool, int, float, str, np.generic)
FORESTS = {kind.__name__: kind for kind in (RandomForestClassifier, ExtraTreesClassifier)}


class Trees(NamedTuple):
    """All trees in a row: the nodes of tree k are ``first[k]`` to ``first[k + 1]``.

    A row at a node goes on at ``left`` if ``x[feature] <= cut``, else at ``right`` (numbers within
    the tree), and at ``left`` if ``x[feature]`` is NaN and ``missing`` is 1; ``left < 0`` marks a
    leaf. ``value`` is ``[nodes, classes]``, the probabilities of a leaf; of more than one output,
    those of all of them side by side.
    """

    first: Array
    feature: Array
    cut: Array
    left: Array
    right: Array
    missing: Array
    value: Array

    @classmethod
    def of(cls, forest: ForestClassifier) -> Trees:
        """The trees of a fitted forest."""
        trees = [e.tree_ for e in forest.estimators_]
        counts = np.atleast_1d(forest.n_classes_)
        values = [  # scikit-learn's are [nodes, outputs, classes]
            np.concatenate([t.value[:, k, :count] for k, count in enumerate(counts)], axis=1)
            for t in trees
        ]
        return cls(
            np.cumsum([0, *(t.node_count for t in trees)]).astype(np.int64),
            np.concatenate([t.feature for t in trees]).astype(np.int32),
            np.concatenate([t.threshold for t in trees]),
            np.concatenate([t.children_left for t in trees]).astype(np.int32),
            np.concatenate([t.children_right for t in trees]).astype(np.int32),
            np.concatenate([t.missing_go_to_left for t in trees]).astype(np.uint8),
            np.concatenate(values),
        )

    def __call__(self, x: Array) -> Array:
        """The mean over trees of the leaves' values, ``[rows, classes]``."""
        absent = np.where(self.missing > 0, NAN_LEFT, NAN_RIGHT)
        nodes = Tree(self.feature, self.cut, self.left, self.right, absent, self.value, {})
        total = np.zeros((len(x), self.value.shape[1]))
        # scikit-learn compares float32 values with float64 cuts.
        for leaf in leaves(as_float32(x).astype(np.float64), self.first, nodes):
            total += self.value[leaf]
        return total / (len(self.first) - 1)

    def check(self, features: int, classes: list[int]) -> None:
        """Refuse arrays that would send a row outside of its tree, or to no probability.

        ``classes`` are the numbers of classes of each output.
        """
        check_links(self.first, self.feature, self.left, self.right, features)
        nodes, numbers = len(self.left), self.cut.dtype.kind == self.value.dtype.kind == "f"
        shapes = (self.cut.shape, self.missing.shape, self.value.shape)
        if not numbers or shapes != ((nodes,), (nodes,), (nodes, sum(classes))):
            raise SavedFileError("the trees need a cut and probabilities for each node.")
        fine = (self.value >= 0).all() and not np.isnan(self.cut).any()  # false for NaN
        for p in np.split(self.value, np.cumsum(classes)[:-1], axis=1):
            fine = fine and np.allclose(p.sum(1), 1)
        if not fine:
            raise SavedFileError("the trees hold numbers that are no probabilities, or NaN.")


class SavedForest(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted forest that was read from a file: it predicts as the one that was written.

    ``forest`` is one with the same settings that is not fitted.
    """

    def __init__(self, forest: ForestClassifier) -> None:
        self.forest = forest

    def fit(self, X: Rows, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Grow a forest anew, with the same settings."""
        grown = clone(self.forest).fit(X, y, sample_weight)
        self.__dict__.update(vars(SavedForest.of(grown)))
        return self

    def predict_proba(self, X: Rows) -> Array | list[Array]:
        """Probabilities ``(n, classes)``; of more than one output a list of these."""
        x = validate_data(
            self, X, reset=False, dtype=np.float64, accept_sparse=True, ensure_all_finite=False
        )
        means = self._trees(x if isinstance(x, np.ndarray) else x.toarray())
        if not isinstance(self.classes_, list):
            return means
        return np.split(means, np.cumsum([len(c) for c in self.classes_])[:-1], axis=1)

    @property
    def estimators_(self) -> range:
        """As many as there are trees."""
        return range(len(self._trees.first) - 1)

    @classmethod
    def of(cls, forest: ForestClassifier) -> SavedForest:
        """What a file would give back of a fitted forest."""
        if isinstance(forest, SavedForest):
            return forest
        saved = cls(type(forest)(**forest.get_params(deep=False)))
        saved._trees, saved.classes_ = Trees.of(forest), forest.classes_
        saved.n_features_in_ = forest.n_features_in_
        saved.feature_importances_ = forest.feature_importances_
        if hasattr(forest, "feature_names_in_"):
            saved.feature_names_in_ = forest.feature_names_in_
        return saved

    def state(self) -> State:
        """As plain data and tensors; ``from_state`` is the way back."""
        params = self.forest.get_params(deep=False)
        several, names = isinstance(self.classes_, list), getattr(self, "feature_names_in_", None)
        return {
            "params": {k: plain(v) for k, v in params.items() if isinstance(v, _PLAIN)},
            "several": several,
            "classes": [pack_array(c) for c in (self.classes_ if several else [self.classes_])],
            "features": self.n_features_in_,
            "names": None if names is None else pack_array(names),
            "trees": {k: torch.from_numpy(v) for k, v in self._trees._asdict().items()},
            "importances": torch.from_numpy(self.feature_importances_),
        }

    @classmethod
    def from_state(cls, kind: str, state: State) -> Self:
        """The forest of ``state()``, which was one of ``FORESTS``."""
        defaults = FORESTS[kind]().get_params()
        model = cls(FORESTS[kind](**{k: v for k, v in state["params"].items() if k in defaults}))
        classes = [unpack_array(packed) for packed in state["classes"]]
        model.classes_ = classes if state["several"] else classes[0]
        model.n_features_in_ = int(state["features"])
        if state["names"] is not None:
            model.feature_names_in_ = unpack_array(state["names"])
        model._trees = Trees(**{k: t.numpy() for k, t in state["trees"].items()})
        model._trees.check(model.n_features_in_, [len(c) for c in classes])
        model.feature_importances_ = state["importances"].double().numpy()
        if model.feature_importances_.shape != (model.n_features_in_,):
            raise SavedFileError("an importance for each feature expected.")
        return model
