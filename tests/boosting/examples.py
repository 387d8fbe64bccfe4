"""Rows with all that trees treat in a special way, and models of both libraries grown on them."""

import lightgbm
import numpy as np
import xgboost

CATEGORIES = [4, 5]


def rows(n, seed):
    """Numbers, rounded numbers, zeros, missing values, and two columns of categories."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6))
    x[:, 1] = np.round(x[:, 1])
    x[:, 2] *= rng.random(n) < 0.5
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 4] = np.where(rng.random(n) < 0.05, np.nan, rng.integers(0, 40, n))
    x[:, 5] = rng.integers(0, 3, n)
    return x


def new_rows(n, seed):
    """As ``rows``, with unknown categories, numbers next to nothing and very large ones."""
    x = rows(n, seed)
    x[::50, 4] = 77
    x[1::50, 0] = 1e-36
    x[2::50, 0] = -1e-35
    x[3::50, :4] = 1e30
    x[4::50, :4] = np.nan
    x[5::50, :4] = 0
    return x


def target(x, classes):
    score = np.nan_to_num(x[:, 0]) + 2 * np.isin(x[:, 4], [1, 4, 7, 33]) + (x[:, 2] == 0)
    score -= np.isnan(x[:, 3])
    return np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


def grown_by_lightgbm(classes=2, rounds=6, categories=CATEGORIES, n=1000, seed=0, **settings):
    x = rows(n, seed)
    settings = {"verbosity": -1, "num_threads": 1, "objective": "binary", **settings}
    if classes > 2:
        settings |= {"objective": "multiclass", "num_class": classes}
    data = lightgbm.Dataset(
        x, target(x, classes), categorical_feature=categories, params=dict(settings)
    )
    return lightgbm.train(settings, data, rounds)


def grown_by_xgboost(classes=2, rounds=6, categories=CATEGORIES, n=1000, seed=0, **settings):
    x = rows(n, seed)
    settings = {"nthread": 1, "objective": "binary:logistic", **settings}
    if classes > 2:
        settings |= {"objective": "multi:softprob", "num_class": classes}
    return xgboost.train(settings, xgboost_data(x, target(x, classes), categories), rounds)


def xgboost_data(x, y=None, categories=CATEGORIES):
    kinds = ["c" if i in categories else "q" for i in range(x.shape[1])]
    return xgboost.DMatrix(x, y, feature_types=kinds, enable_categorical=True)
