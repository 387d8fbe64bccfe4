"""CocktailParty: from six people in a room to pairs that talk, or do not (paper 000 suppl. 4.1.2).

Each frame gives 15 pairs. The room is turned and moved so that the pair lies on the x-axis with
the origin half-way between: x, cos, sin of the two, and x, y, cos, sin of the four others.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas

COLUMNS = ("frame", "timestamp", "person_id", "x", "y", "theta", "group")
TRACK_COLUMNS = ("timestamp", "person_id", "x", "y", "theta")
PEOPLE = 6
_TWO = tuple(f"{what} of {who}" for who in ("first", "second") for what in ("x", "cos", "sin"))
_OTHERS = tuple(f"{what} of other {i}" for i in range(1, 5) for what in ("x", "y", "cos", "sin"))
FEATURES = _TWO + _OTHERS


def fill_untracked(people: pandas.DataFrame, tracks: pandas.DataFrame) -> pandas.DataFrame:
    """Positions and directions that are missing, interpolated in time between the tracks.

    Directions are interpolated as unit vectors, so that 179 and -179 degrees meet at 180.
    """
    people = people.copy()
    missing = people[["x", "y", "theta"]].isna().any(axis=1)
    for person in people.loc[missing, "person_id"].unique():
        own = tracks[tracks["person_id"] == person].dropna().sort_values("timestamp")
        rows = missing & (people["person_id"] == person)
        if own.empty:
            frame = people.loc[rows, "frame"].iloc[0]
            raise ValueError(
                f"person {person} has no position in frame {frame} and no track to fill it from."
            )
        when, known = people.loc[rows, "timestamp"].to_numpy(), own["timestamp"].to_numpy()
        for name in ("x", "y"):
            people.loc[rows, name] = np.interp(when, known, own[name].to_numpy())
        theta = own["theta"].to_numpy()
        sin, cos = (np.interp(when, known, part(theta)) for part in (np.sin, np.cos))
        people.loc[rows, "theta"] = np.arctan2(sin, cos)
    return people


def pair_features(people: pandas.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features ``[pairs, 22]`` and 1 where the two are *not* in the same group.

    Pairs by frame, then by person; a group of -1 means alone, so two such people are apart.
    """
    people = people.sort_values(["frame", "person_id"])
    sizes = people.groupby("frame").size()
    if (sizes != PEOPLE).any():
        frame = sizes.index[sizes != PEOPLE][0]
        raise ValueError(f"frame {frame} must have {PEOPLE} people, got {sizes[frame]}.")
    place = people[["x", "y"]].to_numpy(dtype=np.float64).reshape(-1, PEOPLE, 2)
    theta = people["theta"].to_numpy(dtype=np.float64).reshape(-1, PEOPLE)
    group = people["group"].to_numpy().reshape(-1, PEOPLE)
    features, labels = [], []
    for i, j in combinations(range(PEOPLE), 2):
        others = [k for k in range(PEOPLE) if k not in (i, j)]
        features.append(_seen_from(place, theta, i, j, others))
        labels.append((group[:, i] != group[:, j]) | (group[:, i] < 0))
    x = np.stack(features, 1).reshape(-1, len(FEATURES))
    return x, np.stack(labels, 1).reshape(-1).astype(np.int64)


def _seen_from(
    place: NDArray[np.float64], theta: NDArray[np.float64], i: int, j: int, others: list[int]
) -> NDArray[np.float64]:
    """All frames ``[frames, 22]`` in the coordinates of the pair: i on the left, j on the right."""
    origin = (place[:, i] + place[:, j]) / 2
    along = place[:, j] - place[:, i]
    angle = np.arctan2(along[:, 1], along[:, 0])
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    moved = place - origin[:, None, :]
    x = moved[..., 0] * cos + moved[..., 1] * sin
    y = moved[..., 1] * cos - moved[..., 0] * sin
    turned = theta - angle[:, None]
    parts = [f[:, k] for k in (i, j) for f in (x, np.cos(turned), np.sin(turned))]
    parts += [f[:, k] for k in others for f in (x, y, np.cos(turned), np.sin(turned))]
    return np.stack(parts, 1)
