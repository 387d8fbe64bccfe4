"""XGBoost (``xgboost`` or ``xgboost-cpu``, the same module): both phases of training, and a reader
of its JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from softset.boosting.base import SLOWER, Library, imported, refusals
from softset.boosting.objective import MetricObjective
from softset.boosting.spool import Spool, blocks
from softset.boosting.trees import NAN_LEFT, NAN_RIGHT, BoostedTrees, Tree, as_float32
from softset.checks import check_choice
from softset.storage.container import whole
from softset.storage.files import SavedFileError
from softset.tables.rows import Examples
from softset.typing import Array, Settings

# The category numbers that a float32 can count.
_MOST_CATEGORIES = 2**24
# Whether an objective's ``base_score`` is a probability, the logit of which is added to the trees.
_IS_PROBABILITY = {
    "binary:logistic": True,
    "binary:logitraw": True,
    "reg:logistic": True,
    "multi:softprob": False,
    "multi:softmax": False,
}


class XGBoost(Library):
    """XGBoost, and its own JSON format."""

    name = "xgboost"

    def __init__(
        self,
        settings: Settings,
        threads: int,
        n: int,
        classes: int,
        categorical: list[int],
        params: Settings,
    ) -> None:
        self.library = imported("xgboost")
        self.settings = {
            "max_depth": 4,
            "subsample": 0.7,
            "colsample_bytree": 0.7,
            "tree_method": "hist",
            "verbosity": 0,
            "nthread": threads,
            "objective": "binary:logistic" if classes == 2 else "multi:softprob",
            **settings,
            **params,
        }
        check_choice("params['objective']", self.settings["objective"], _IS_PROBABILITY)
        if classes > 2:
            self.settings["num_class"] = classes
        self.threads, self.categorical = threads, set(categorical)

    def load(self, rows: Examples, checks: Examples) -> None:
        """Pass the rows to XGBoost, and those on which rounds are stopped."""
        types = ["c" if i in self.categorical else "q" for i in range(rows.x.shape[1])]
        settings: Settings = {"nthread": self.threads}
        if self.categorical:
            settings.update(feature_types=types, enable_categorical=True)
        self.rows, self.checks = (
            self._spooled(part, settings)
            if isinstance(part.x, Spool)
            else self.library.DMatrix(as_float32(part.x), part.y, weight=part.w, **settings)
            for part in (rows, checks)
        )

    def _spooled(self, rows: Examples, settings: Settings) -> Any:
        """XGBoost's external memory: it reads blocks by an iterator, and keeps them as bins in
        files of its own beside ours."""
        spool: Any = rows.x
        slices = list(blocks(len(spool)))

        class Blocks(self.library.DataIter):  # type: ignore[name-defined, misc]
            def __init__(self) -> None:
                self.at = 0
                super().__init__(cache_prefix=f"{spool.path}-xgboost")

            def next(self, input_data: Any) -> bool:
                if self.at == len(slices):
                    return False
                part = slices[self.at]
                input_data(data=as_float32(spool[part]), label=rows.y[part], weight=rows.w[part])
                self.at += 1
                return True

            def reset(self) -> None:
                self.at = 0

        bins = int(self.settings.get("max_bin", 256))
        return self.library.ExtMemQuantileDMatrix(Blocks(), max_bin=bins, **settings)

    def log_loss(self, rounds: int, patience: int) -> tuple[BoostedTrees, int]:
        """Rounds for log-loss, stopped on the held-out rows: the trees, and how many rounds
        are best."""
        with refusals("XGBoost", self.library.core.XGBoostError):
            booster = self.library.train(
                self.settings,
                self.rows,
                rounds,
                evals=[(self.checks, "checks")],
                early_stopping_rounds=patience,
                verbose_eval=False,
            )
            best = booster.best_iteration + 1
            return self._trees(booster[:best]), best

    def steps(self, start: Array, checks: Array, objective: MetricObjective) -> Iterator[Array]:
        """One round for the metric after the other, from scores: those of the held-out rows
        after each."""
        self.rows.set_base_margin(start)
        self.checks.set_base_margin(checks)
        # Written as a score of 0: scores are those of the base margin and the trees.
        nothing = 0.5 if _IS_PROBABILITY[self.settings["objective"]] else 0.0
        settings = {"min_child_weight": 1e-3, **self.settings, "base_score": nothing}
        settings["learning_rate"] *= SLOWER
        with refusals("XGBoost", self.library.core.XGBoostError):
            self.booster = self.library.Booster(settings, [self.rows, self.checks])
            i = 0
            while True:
                self.booster.update(self.rows, i, fobj=objective)
                z = self.booster.predict(self.checks, output_margin=True)
                yield np.asarray(z, dtype=np.float64)
                i += 1

    def kept(self, rounds: int) -> BoostedTrees:
        """The trees of the first rounds."""
        return self._trees(self.booster[:rounds])

    def _trees(self, booster: Any) -> BoostedTrees:
        return self.parse(booster.save_raw("json").decode())

    @staticmethod
    def margins(booster: BoostedTrees, x: Array) -> Array:
        """Scores of the trees alone, of inputs as XGBoost reads them: in float32."""
        return booster(as_float32(x))

    @staticmethod
    def parse(text: str) -> BoostedTrees:
        """The trees of XGBoost's JSON."""
        with whole("its text", "XGBoost model"):
            return _read(text)


def _read(text: str) -> BoostedTrees:
    """The trees of a JSON model."""
    learner = json.loads(text)["learner"]
    booster = learner["gradient_booster"]
    kind = booster["name"]
    if kind not in ("gbtree", "dart"):
        raise SavedFileError(f"a booster of trees is expected, got {kind!r}.")
    model = booster["model"] if kind == "gbtree" else booster["gbtree"]["model"]
    count = len(model["trees"])
    shares = _floats(booster["weight_drop"], count) if kind == "dart" else np.ones(count, "f4")
    params = learner["learner_model_param"]
    outputs, features = max(1, int(params["num_class"])), int(params["num_feature"])
    if outputs > count or int(params.get("num_target", "1")) > 1:
        raise SavedFileError(f"{count} trees do not fit its {outputs} outputs.")
    return BoostedTrees.of(
        (_tree(tree, share) for tree, share in zip(model["trees"], shares, strict=True)),
        _integers(model["tree_info"], count),
        _start(str(params["base_score"]), learner["objective"]["name"], outputs),
        features=features,
        text=text,
        strict=True,
    )


def _start(written: str, objective: str, outputs: int) -> Array:
    """What is added to the trees: one number, or (from version 3.1 on) one for each class."""
    values = [float(word) for word in written.strip("[]").split(",")]
    if len(values) not in (1, outputs) or objective not in _IS_PROBABILITY:
        raise SavedFileError(f"the base_score of {objective!r} does not fit {outputs} outputs.")
    start = np.array(values, dtype=np.float32)
    if _IS_PROBABILITY[objective]:
        if not ((start > 0) & (start < 1)).all():
            raise SavedFileError("the base_score must be a probability.")
        # In float32 as the library, but the logarithm, whose last bit is not the same everywhere.
        odds = 1 / start - 1
        start = np.array([-math.log(v) for v in odds.tolist()], dtype=np.float32)
    return np.repeat(start, outputs) if len(start) == 1 else start


def _tree(tree: Settings, share: np.float32) -> Tree:
    """Leaves keep their value as the threshold. Categories in a set go right there, left here."""
    count = int(tree["tree_param"]["num_nodes"])
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        raise SavedFileError("leaves with several values are not supported.")
    left = _integers(tree["left_children"], count)
    right = _integers(tree["right_children"], count)
    threshold = _floats(tree["split_conditions"], count)
    default_left = _integers(tree["default_left"], count) != 0
    sets = _sets(tree, left >= 0)
    swapped = np.zeros(count, dtype=bool)
    swapped[list(sets)] = True
    return Tree(
        _integers(tree["split_indices"], count),
        np.where(swapped, np.float32(0), threshold),  # version 2 writes NaN in leaves
        np.where(swapped, right, left),
        np.where(swapped, left, right),
        np.where(default_left ^ swapped, NAN_LEFT, NAN_RIGHT),
        np.where(left < 0, threshold * share, np.float32(0)),
        sets,
    )


def _sets(tree: Settings, inner: Array) -> dict[int, Array]:
    """The categories of each node that splits by them; they stand in a row, node after node."""
    kinds = _integers(tree["split_type"], len(inner))
    wanted = np.flatnonzero((kinds != 0) & inner)
    nodes, sizes, starts = (
        _integers(tree[f"categories_{name}"], None) for name in ("nodes", "sizes", "segments")
    )
    values = _integers(tree["categories"], None)
    fine = len(nodes) == len(sizes) == len(starts)
    fine = fine and bool((sizes >= 0).all()) and sizes.sum() == len(values)
    fine = fine and np.array_equal(starts, np.cumsum(sizes) - sizes)
    fine = fine and bool(((values >= 0) & (values < _MOST_CATEGORIES)).all())
    by_node = dict(zip(nodes.tolist(), np.split(values, starts[1:]) if fine else [], strict=False))
    if not fine or len(by_node) != len(nodes) or not set(wanted.tolist()) <= set(by_node):
        raise SavedFileError("the sets of categories do not fit together.")
    return {int(node): np.unique(by_node[int(node)]) for node in wanted}


def _integers(values: object, count: int | None) -> Array:
    return _numbers(values, count, (int, bool), np.int64)


def _floats(values: object, count: int | None) -> Array:
    with np.errstate(over="ignore"):  # infinite leaves are refused later
        return _numbers(values, count, (int, float), np.float64).astype(np.float32)


def _numbers(
    values: object, count: int | None, kinds: tuple[type, ...], dtype: type[np.generic]
) -> Array:
    """A list of plain numbers; numpy would turn all of them into text if one is text."""
    if not isinstance(values, list) or (count is not None and len(values) != count):
        raise SavedFileError(f"a list of {count} numbers is expected.")
    if not all(type(value) in kinds for value in values):
        raise SavedFileError("a list of numbers holds something else.")
    return np.array(values, dtype=dtype)
