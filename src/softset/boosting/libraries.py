"""LightGBM and XGBoost behind one face: data, log-loss rounds, rounds for a metric, scores, text.

``rows`` and ``checks`` have columns ``x``, class numbers ``y`` and weights ``w``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from softset.boosting.objective import MetricObjective

# The learning rate of the rounds for the metric, as a share of that of log-loss.
SLOWER = 0.5


class LightGBM:
    """LightGBM: data sets, both phases, scores, and its own text format."""

    def __init__(
        self,
        settings: dict[str, Any],
        threads: int,
        n: int,
        classes: int,
        categorical: list[int],
        extra: dict[str, Any],
    ) -> None:
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
            **extra,
        }
        if classes > 2:
            self.settings["num_class"] = classes
        self.objective = "binary" if classes == 2 else "multiclass"
        self.categorical = categorical

    def load(self, rows: Any, checks: Any) -> None:
        import lightgbm

        settings: dict[str, Any] = {
            "params": self.settings,
            "categorical_feature": self.categorical,
        }
        self.rows = lightgbm.Dataset(rows.x, rows.y, weight=rows.w, **settings)
        self.checks = self.rows.create_valid(
            checks.x, checks.y, weight=checks.w, params=self.settings
        )

    def log_loss(self, rounds: int, patience: int) -> tuple[Any, int]:
        import lightgbm

        booster = lightgbm.train(
            {**self.settings, "objective": self.objective},
            self.rows,
            rounds,
            valid_sets=[self.checks],
            callbacks=[lightgbm.early_stopping(patience, verbose=False)],
        )
        kept = booster.best_iteration if booster.best_iteration > 0 else booster.current_iteration()
        return self.parse(booster.model_to_string(num_iteration=kept)), kept

    def steps(self, start: Any, checks: Any, objective: MetricObjective) -> Iterator[np.ndarray]:
        import lightgbm

        self.rows.set_init_score(start)
        self.checks.set_init_score(checks)
        # Exactly 0 makes LightGBM fail on splits with an empty side.
        settings = {"min_sum_hessian_in_leaf": 1e-3, **self.settings, "objective": "none"}
        settings["learning_rate"] *= SLOWER
        self.booster = lightgbm.Booster(settings, self.rows)
        self.booster.add_valid(self.checks, "checks")
        seen: list[np.ndarray] = []

        def look(scores: np.ndarray, _: Any) -> tuple[str, float, bool]:
            seen.append(np.array(scores, dtype=np.float64))
            return "", 0.0, True

        while not self.booster.update(fobj=objective):
            self.booster.eval_valid(look)
            yield seen.pop()

    def kept(self, rounds: int) -> Any:
        return self.parse(self.booster.model_to_string(num_iteration=rounds))

    @staticmethod
    def margins(booster: Any, x: np.ndarray) -> np.ndarray:
        return np.asarray(booster.predict(x, raw_score=True), dtype=np.float64)

    @staticmethod
    def dump(booster: Any) -> str:
        return booster.model_to_string()

    @staticmethod
    def parse(text: str) -> Any:
        import lightgbm

        return lightgbm.Booster(model_str=text)


class XGBoost:
    """XGBoost (``xgboost`` or ``xgboost-cpu``, the same module), and its own JSON format."""

    def __init__(
        self,
        settings: dict[str, Any],
        threads: int,
        n: int,
        classes: int,
        categorical: list[int],
        extra: dict[str, Any],
    ) -> None:
        self.settings = {
            "max_depth": 4,
            "subsample": 0.7,
            "colsample_bytree": 0.7,
            "tree_method": "hist",
            "verbosity": 0,
            "nthread": threads,
            "objective": "binary:logistic" if classes == 2 else "multi:softprob",
            **settings,
            **extra,
        }
        if classes > 2:
            self.settings["num_class"] = classes
        self.threads, self.categorical = threads, set(categorical)

    def load(self, rows: Any, checks: Any) -> None:
        import xgboost

        types = ["c" if i in self.categorical else "q" for i in range(rows.x.shape[1])]
        settings: dict[str, Any] = {"nthread": self.threads}
        if self.categorical:
            settings.update(feature_types=types, enable_categorical=True)
        self.rows = xgboost.DMatrix(rows.x, rows.y, weight=rows.w, **settings)
        self.checks = xgboost.DMatrix(checks.x, checks.y, weight=checks.w, **settings)

    def log_loss(self, rounds: int, patience: int) -> tuple[Any, int]:
        import xgboost

        booster = xgboost.train(
            self.settings,
            self.rows,
            rounds,
            evals=[(self.checks, "checks")],
            early_stopping_rounds=patience,
            verbose_eval=False,
        )
        kept = booster.best_iteration + 1
        return booster[:kept], kept

    def steps(self, start: Any, checks: Any, objective: MetricObjective) -> Iterator[np.ndarray]:
        import xgboost

        self.rows.set_base_margin(start)
        self.checks.set_base_margin(checks)
        # A probability of 1/2 is a score of 0: scores are those of the base margin and the trees.
        settings = {"min_child_weight": 1e-3, **self.settings, "base_score": 0.5}
        settings["learning_rate"] *= SLOWER
        self.booster = xgboost.Booster(settings, [self.rows, self.checks])
        i = 0
        while True:
            self.booster.update(self.rows, i, fobj=objective)
            yield np.asarray(
                self.booster.predict(self.checks, output_margin=True), dtype=np.float64
            )
            i += 1

    def kept(self, rounds: int) -> Any:
        return self.booster[:rounds]

    @staticmethod
    def margins(booster: Any, x: np.ndarray) -> np.ndarray:
        import xgboost

        types = booster.feature_types
        settings = {"feature_types": types, "enable_categorical": True} if types else {}
        data = xgboost.DMatrix(x, **settings)
        return np.asarray(booster.predict(data, output_margin=True), dtype=np.float64)

    @staticmethod
    def dump(booster: Any) -> str:
        return booster.save_raw("json").decode()

    @staticmethod
    def parse(text: str) -> Any:
        import xgboost

        booster = xgboost.Booster()
        booster.load_model(bytearray(text.encode()))
        return booster


LIBRARIES: dict[str, Any] = {"lightgbm": LightGBM, "xgboost": XGBoost}
