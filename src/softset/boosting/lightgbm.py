"""LightGBM: both phases of training, and a reader of its model text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from softset.boosting.base import SLOWER, Library, imported, refusals
from softset.boosting.objective import MetricObjective
from softset.boosting.spool import BLOCK, Spool
from softset.boosting.trees import (
    AS_ZERO,
    NAN_LEFT,
    NAN_RIGHT,
    ZERO_LEFT,
    ZERO_RIGHT,
    BoostedTrees,
    Tree,
)
from softset.storage.container import whole
from softset.storage.files import SavedFileError
from softset.tables.rows import Examples
from softset.typing import Array, Settings

# What LightGBM takes for zero: its kZeroThreshold, a float32.
_ZERO = float(np.float32(1e-35))
# Bits of ``decision_type``: a category; missing values go left; then two that say what is missing.
_CATEGORY, _DEFAULT_LEFT = 1, 2
_ABSENT = np.array(
    [[AS_ZERO, AS_ZERO], [ZERO_RIGHT, ZERO_LEFT], [NAN_RIGHT, NAN_LEFT]], dtype=np.int8
)


class LightGBM(Library):
    """LightGBM: data sets, both phases, scores, and its own text format."""

    name = "lightgbm"

    def __init__(
        self,
        settings: Settings,
        threads: int,
        n: int,
        classes: int,
        categorical: list[int],
        params: Settings,
    ) -> None:
        self.library = imported("lightgbm")
        self.settings = {
            "num_leaves": 15,
            "lambda_l2": 1.0,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "feature_fraction": 0.7,
            "min_data_in_leaf": max(1, min(20, n // 20)),
            "min_data_in_bin": 3 if n > 100 else 1,
            "verbosity": -1,
            "deterministic": True,
            "force_col_wise": True,
            "feature_pre_filter": False,
            "num_threads": threads,
            **settings,
            **params,
        }
        if self.settings.get("linear_tree") or self.settings.get("linear_trees"):
            raise ValueError(
                "params must leave out linear_tree: leaves that are linear functions are not "
                "supported."
            )
        if classes > 2:
            self.settings["num_class"] = classes
        self.objective = "binary" if classes == 2 else "multiclass"
        self.categorical = categorical

    def load(self, rows: Examples, checks: Examples) -> None:
        """Pass the rows to LightGBM, and those on which rounds are stopped."""
        params = {**self.settings, "objective": self.objective}  # num_class needs it
        x = self._sequence(rows.x) if isinstance(rows.x, Spool) else rows.x
        self.rows = self.library.Dataset(
            x, rows.y, weight=rows.w, params=params, categorical_feature=self.categorical
        )
        self.checks = self.rows.create_valid(checks.x, checks.y, weight=checks.w, params=params)

    def _sequence(self, spool: Spool) -> Iterable[Array]:
        """LightGBM's way to read rows that are not in memory; what it keeps is one bin a cell."""

        class RowSequence(self.library.Sequence):  # type: ignore[name-defined, misc]
            batch_size = BLOCK

            def __len__(self) -> int:
                return len(spool)

            def __getitem__(self, which: int | slice) -> Array:
                return spool[which] if isinstance(which, slice) else spool[which : which + 1][0]

        return RowSequence()

    def log_loss(self, rounds: int, patience: int) -> tuple[BoostedTrees, int]:
        """Rounds for log-loss, stopped on the held-out rows: the trees, and how many rounds
        are best."""
        with refusals("LightGBM", self.library.basic.LightGBMError):
            booster = self.library.train(
                {**self.settings, "objective": self.objective},
                self.rows,
                rounds,
                valid_sets=[self.checks],
                callbacks=[self.library.early_stopping(patience, verbose=False)],
            )
        best = booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration()
        return self.parse(booster.model_to_string(num_iteration=best)), best

    def steps(self, start: Array, checks: Array, objective: MetricObjective) -> Iterator[Array]:
        """One round for the metric after the other, from scores: those of the held-out rows
        after each."""
        self.rows.set_init_score(start)
        self.checks.set_init_score(checks)
        # Exactly 0 makes LightGBM fail on splits with an empty side.
        settings = {"min_sum_hessian_in_leaf": 1e-3, **self.settings, "objective": "none"}
        settings["learning_rate"] *= SLOWER
        seen: list[Array] = []

        def look(scores: Array, _: object) -> tuple[str, float, bool]:
            """An evaluation by name only: it keeps the scores after each round."""
            seen.append(np.array(scores, dtype=np.float64))
            return "", 0.0, True

        with refusals("LightGBM", self.library.basic.LightGBMError):
            self.booster = self.library.Booster(settings, self.rows)
            self.booster.add_valid(self.checks, "checks")
            if not any(self.rows.feature_num_bin(j) > 1 for j in range(self.rows.num_feature())):
                return  # all columns are 0: with gradients of ours it would fail
            while not self.booster.update(fobj=objective):
                self.booster.eval_valid(look)
                yield seen.pop()

    def kept(self, rounds: int) -> BoostedTrees:
        """The trees of the first rounds."""
        return self.parse(self.booster.model_to_string(num_iteration=rounds))

    @staticmethod
    def margins(booster: BoostedTrees, x: Array) -> Array:
        """Scores of the trees alone, as LightGBM reads the inputs: numbers next to 0 are 0."""
        return booster(np.where(np.abs(x) <= _ZERO, 0.0, x))

    @staticmethod
    def parse(text: str) -> BoostedTrees:
        """The trees of LightGBM's text."""
        with whole("its text", "LightGBM model"):
            return _read(text)


def _read(text: str) -> BoostedTrees:
    """The trees of a model text: a header, then one block of ``name=values`` lines a tree."""
    body, end, _ = text.partition("\nend of trees\n")
    head, *blocks = body.split("\nTree=")
    header = _fields(head)
    outputs, features = int(header["num_tree_per_iteration"]), int(header["max_feature_idx"]) + 1
    whole_text = end and len(blocks) == len(header["tree_sizes"].split())
    # Every class has a tree in every round.
    if not whole_text or not 1 <= outputs <= len(blocks) or len(blocks) % outputs:
        raise SavedFileError(f"{len(blocks)} trees do not fit its header.")
    trees = [_tree(k, block) for k, block in enumerate(blocks)]
    return BoostedTrees.of(
        trees,
        np.arange(len(blocks)) % outputs,
        np.zeros(outputs),
        features=features,
        text=text,
    )


def _tree(number: int, block: str) -> Tree:
    """Inner nodes first, then the leaves: leaf i, ``-1 - i`` in the text, is a node behind them."""
    title, _, lines = block.partition("\n")
    fields = _fields(lines)
    if title != str(number) or fields.get("is_linear", "0") != "0":
        raise SavedFileError(f"tree {number} is named {title!r}, or has linear leaves.")
    leaves = int(fields["num_leaves"])
    inner = leaves - 1

    def column(name: str, kind: type, count: int) -> Array:
        """A field of the tree: so many numbers, or an error that names the tree."""
        words = fields[name].split() if count else []
        if len(words) != count:
            raise SavedFileError(f"tree {number} has {len(words)} of {count} numbers in {name}.")
        return np.array([kind(word) for word in words], dtype=kind)

    def with_leaves(inner: Array, filling: int) -> Array:
        """Numbers of inner nodes, and ``filling`` for each leaf."""
        return np.concatenate([inner, np.full(leaves, filling, dtype=inner.dtype)])

    def child(name: str) -> Array:
        """Node numbers of children; LightGBM counts leaves as -1, -2, …"""
        numbers = column(name, int, inner)
        if ((numbers < -leaves) | (numbers >= inner)).any():
            raise SavedFileError(f"tree {number} has a {name} that is neither node nor leaf.")
        return with_leaves(np.where(numbers < 0, leaves - 2 - numbers, numbers), -1)

    values = column("leaf_value", float, leaves)
    threshold = column("threshold", float, inner)
    decision = column("decision_type", int, inner)
    if ((decision < 0) | (decision >= 4 * len(_ABSENT))).any():
        raise SavedFileError(f"tree {number} has an unknown decision_type.")
    absent = _ABSENT[decision >> 2, (decision & _DEFAULT_LEFT) // _DEFAULT_LEFT]
    by_category = np.flatnonzero(decision & _CATEGORY)
    absent[by_category] = NAN_RIGHT
    sets = _sets(column, int(fields["num_cat"])) if len(by_category) else []
    if any(not 0 <= place < len(sets) for place in threshold[by_category]):
        raise SavedFileError(f"tree {number} asks for a set of categories that is not there.")
    return Tree(
        with_leaves(column("split_feature", int, inner), 0),
        with_leaves(threshold, 0),
        child("left_child"),
        child("right_child"),
        with_leaves(absent, AS_ZERO),
        np.concatenate([np.zeros(inner), values]),
        {int(node): sets[int(threshold[node])] for node in by_category},
    )


def _sets(column: Callable[[str, type, int], Array], count: int) -> list[Array]:
    """The sets of categories of a tree: set i is the bits of words ``bounds[i]`` to the next."""
    bounds = column("cat_boundaries", int, count + 1)
    words = column("cat_threshold", int, int(bounds[-1]))
    fine = bounds[0] == 0 and (bounds[1:] > bounds[:-1]).all()
    if not fine or ((words < 0) | (words >= 2**32)).any():
        raise SavedFileError("the sets of categories do not fit together.")
    bits = np.split(words.astype("<u4"), bounds[1:-1])
    return [np.flatnonzero(np.unpackbits(p.view(np.uint8), bitorder="little")) for p in bits]


def _fields(lines: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition("=") for line in lines.split("\n"))}
