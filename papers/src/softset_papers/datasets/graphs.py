"""CocktailParty as graphs: a node for each person of a frame, a label for each pair of them."""

from __future__ import annotations

import os
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softset_papers.datasets.pairs import COLUMNS, PEOPLE, TRACK_COLUMNS, fill_untracked
from softset_papers.datasets.papers import data_directory, read_table


class GraphSet(NamedTuple):
    """``people [frames, 6, 4]`` (x, y, cos, sin) and ``pairs [frames, 15]``, 1 = same group.

    Places are in metres, from the middle of the six; pairs are in the order of
    ``itertools.combinations``.
    """

    people: NDArray[np.float32]
    pairs: NDArray[np.int64]


def load_graphs(data_dir: str | os.PathLike[str] | None = None) -> GraphSet:
    """The annotated frames, untracked positions filled in (paper 001 section 5.3).

    Here "same group" is the positive class, unlike in the tabular set: with the other one the
    published F1 of 0.83 at an accuracy of 0.77 would be impossible.
    """
    directory = data_directory(data_dir, "cocktailparty graphs")
    table = read_table(directory / "cocktailparty.parquet", COLUMNS)
    if table[["x", "y", "theta"]].isna().to_numpy().any():
        tracks = read_table(directory / "cocktailparty_tracks.parquet", TRACK_COLUMNS)
        table = fill_untracked(table, tracks)
    table = table.sort_values(["frame", "person_id"])
    sizes = table.groupby("frame").size()
    if (sizes != PEOPLE).any():
        frame = sizes.index[sizes != PEOPLE][0]
        raise ValueError(f"frame {frame} must have {PEOPLE} people, got {sizes[frame]}.")
    place = table[["x", "y"]].to_numpy(dtype=np.float64).reshape(-1, PEOPLE, 2) / 100
    theta = table["theta"].to_numpy(dtype=np.float64).reshape(-1, PEOPLE)
    group = table["group"].to_numpy().reshape(-1, PEOPLE)
    place = place - place.mean(1, keepdims=True)
    people = np.concatenate([place, np.cos(theta)[..., None], np.sin(theta)[..., None]], -1)
    i, j = np.array(list(combinations(range(PEOPLE), 2))).T
    same = (group[:, i] == group[:, j]) & (group[:, i] >= 0)
    return GraphSet(people.astype(np.float32), same.astype(np.int64))
