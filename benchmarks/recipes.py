"""F1 of the recipes of MetricMLPClassifier on Mammography and Adult, over random splits.

Run: python benchmarks/recipes.py [--data-dir ../shared/data] [--splits 5]
The data is not part of the project: mammography.parquet and adult.parquet with the columns of
OpenML 310 and 1590 (targets ``class`` and ``income``).
"""

from __future__ import annotations

import argparse
import datetime
import time
from ast import literal_eval
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.metrics import f1_score
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from softset import MetricMLPClassifier
from softset.training.recipes import RECIPES

SETS = ("mammography", "mammography, duplicates on one side", "adult")
# Of the imbalanced-learn benchmark: --sets others measures defaults on sets of another kind.
OTHERS = ("abalone", "ecoli", "satimage", "yeast_me2", "wine_quality", "car_eval_34", "oil",
          "us_crime", "letter_img", "thyroid_sick", "sick_euthyroid")  # fmt: skip


def read(name: str, directory: Path) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Columns, 0/1 targets, and groups of equal rows where they must stay together."""
    import pandas  # noqa: PLC0415

    if name in OTHERS:
        table = pandas.read_parquet(directory / "imblearn_zenodo" / f"{name}.parquet")
        return table, (table.pop("label") == 1).to_numpy().astype(int), None
    table = pandas.read_parquet(directory / f"{name.partition(',')[0]}.parquet")
    if name == "adult":
        y = (table.pop("income") == ">50K").to_numpy().astype(int)
        return table.drop(columns=["fnlwgt", "split"]), y, None
    y = (table.pop("class") == 1).to_numpy().astype(int)
    groups = table.groupby(list(table.columns)).ngroup().to_numpy() if "," in name else None
    return table, y, groups


def splits(y: np.ndarray, groups: np.ndarray | None, count: int) -> list[Any]:
    """Train and test rows: 80 and 20 %, seeds 0, 1, …"""
    if groups is None:
        return list(StratifiedShuffleSplit(count, test_size=0.2, random_state=0).split(y, y))
    return list(GroupShuffleSplit(count, test_size=0.2, random_state=0).split(y, y, groups))


def scores(name: str, recipe: str, directory: Path, count: int, settings: Any) -> list[Any]:
    """For each split: test F1 at threshold 1/2 and at the tuned one, and seconds."""
    table, y, groups = read(name, directory)
    rows = []
    for seed, (train, test) in enumerate(splits(y, groups, count)):
        encode = make_column_transformer(
            (
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
                make_column_selector(dtype_exclude="number"),
            ),
            remainder="passthrough",
        )
        model = make_pipeline(
            encode, MetricMLPClassifier("f1", recipe=recipe, random_state=seed, **settings)
        )
        start = time.perf_counter()
        model.fit(table.iloc[train], y[train])
        seconds = time.perf_counter() - start
        half = model.predict_proba(table.iloc[test])[:, 1] >= 0.5
        rows.append(
            (
                f1_score(y[test], half),
                f1_score(y[test], model.predict(table.iloc[test])),
                seconds,
            )
        )
    return rows


def summarize(sets: Any, args: Any, settings: Any) -> None:
    """One number a recipe: the mean over sets of the mean test F1, at the tuned threshold."""
    for recipe in args.recipes:
        means = [
            np.mean([row[1] for row in scores(name, recipe, args.data_dir, args.splits, settings)])
            for name in sets
        ]
        print(f"{recipe}: mean F1 over {len(means)} sets {np.mean(means):.4f}", flush=True)


def main() -> None:
    """Print a Markdown table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=(*SETS, *OTHERS, "others"))
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), choices=RECIPES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    missing = [n for n in ("mammography", "adult") if not (args.data_dir / f"{n}.parquet").exists()]
    if missing:
        print(f"skipped: {args.data_dir} has no {missing[0]}.parquet (see --data-dir).")
        return
    torch.set_num_threads(args.threads)
    settings = {k: literal_eval(v) for k, v in (pair.split("=") for pair in args.set)}
    print(
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {args.threads} thread(s), "
        f"{args.splits} splits (seeds 0 to {args.splits - 1}), {settings or 'default settings'}"
    )
    if "others" in args.sets:
        summarize(OTHERS, args, settings)
        return
    for name in args.sets:
        print(f"\n{name}: test F1, mean ± standard deviation\n")
        print("| recipe | at 0.5 | tuned threshold | tuned, minus cross-entropy | seconds a fit |")
        print("|---|---|---|---|---|")
        reference = None
        for recipe in args.recipes:
            rows = np.array(scores(name, recipe, args.data_dir, args.splits, settings))
            half, tuned, seconds = rows.T
            reference = tuned if recipe == "cross-entropy" else reference
            gain = "" if reference is None else f"{(tuned - reference).mean():+.4f}"
            print(
                f"| {recipe} | {half.mean():.4f} ± {half.std():.4f} | "
                f"{tuned.mean():.4f} ± {tuned.std():.4f} | {gain} | {seconds.mean():.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
