"""Small made-up files in the form of the real ones."""

import numpy as np
import pandas

from softset_papers.datasets.images import CIFAR_CLASSES, FASHION_CLASSES, TRANSPORT, ImageSet
from softset_papers.datasets.papers import ADULT_CATEGORIES

MAMMOGRAPHY_ROWS, CARD_ROWS, ADULT_ROWS, FRAMES = 400, 300, 360, 30


def write_sets(directory):
    """Write every file the readers want; rows are few, columns and values as in the real ones."""
    rng = np.random.default_rng(0)
    _mammography(rng).to_parquet(directory / "mammography.parquet")
    _card(rng).to_parquet(directory / "creditcard_subset.parquet")
    _card(rng).to_parquet(directory / "creditcard.parquet")
    _adult(rng).to_parquet(directory / "adult.parquet")
    people, tracks = _party(rng)
    people.to_parquet(directory / "cocktailparty.parquet")
    tracks.to_parquet(directory / "cocktailparty_tracks.parquet")
    return directory


def _mammography(rng):
    x = rng.normal(size=(MAMMOGRAPHY_ROWS, 6))
    x[100:150] = x[:50]  # duplicates
    y = np.where(x[:, 0] + x[:, 1] > 1.7, 1, -1)
    return pandas.DataFrame(x, columns=[f"attr{i}" for i in range(1, 7)]).assign(**{"class": y})


def _card(rng):
    table = pandas.DataFrame(
        rng.normal(size=(CARD_ROWS, 28)), columns=[f"V{i}" for i in range(1, 29)]
    )
    table["Amount"] = np.abs(rng.normal(size=CARD_ROWS)) * 50
    table.loc[3, "Amount"] = 0.0
    table["Class"] = (table["V1"] > 1.0).astype("int8")
    return table.assign(Time=0.0, source="made up")


def _adult(rng):
    table = pandas.DataFrame({"age": rng.integers(17, 90, ADULT_ROWS)})
    for name in ("education-num", "capital-gain", "capital-loss", "hours-per-week", "fnlwgt"):
        table[name] = rng.integers(0, 40, ADULT_ROWS)
    for name in ADULT_CATEGORIES:
        table[name] = rng.choice(["a", "b", "?"], ADULT_ROWS)
    table["income"] = np.where(table["age"] > 65, ">50K", "<=50K")
    table["split"] = np.where(np.arange(ADULT_ROWS) % 3 == 0, "test", "train")
    return table


def _party(rng):
    frame = np.repeat(np.arange(1, FRAMES + 1), 6)
    people = pandas.DataFrame(
        {
            "frame": frame,
            "timestamp": frame * 1000,
            "feature_frame": frame * 10,
            "person_id": np.tile([198, 199, 200, 201, 202, 205], FRAMES),
            "x": rng.uniform(0, 500, 6 * FRAMES),
            "y": rng.uniform(0, 600, 6 * FRAMES),
            "theta": rng.uniform(-np.pi, np.pi, 6 * FRAMES),
            "group": rng.choice([0, 0, 0, 1, -1], 6 * FRAMES),
        }
    )
    tracks = people[["feature_frame", "timestamp", "person_id", "x", "y", "theta"]].copy()
    people.loc[(people["frame"] == 5) & (people["person_id"] == 202), ["x", "y", "theta"]] = np.nan
    tracks = tracks.drop(index=people.index[people["x"].isna()])
    return people, tracks


def small_images(name: str) -> ImageSet:
    """Random images, 12 of each class."""
    classes = ("ak47", "dog", "frog") if name == "caltech-256" else CIFAR_CLASSES
    shape = (3, 32, 32)
    if name.startswith("fashion"):
        classes, shape = FASHION_CLASSES, (1, 28, 28)
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(classes)), 12)
    x = rng.integers(0, 256, (len(y), *shape), np.uint8)
    whole = ImageSet(name, x, y, classes, np.arange(len(y)) % 4 == 0)
    positive = {
        "cifar-10-transportation": TRANSPORT,
        "cifar-10-frog": ("frog",),
        "cifar-10-airplane": ("airplane",),
        "fashion-mnist-tshirt": ("t-shirt",),
    }
    return whole.against_rest(name, positive[name]) if name in positive else whole
