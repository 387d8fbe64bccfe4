"""Labels and weights as users have them, checked; the only place where labels become numbers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

Array = NDArray[Any]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def refuse_missing(y: Any) -> None:
    """Refuse NaN and None among the labels, with the rows they are in."""
    if y is None or hasattr(y, "toarray"):
        return
    values = np.asarray(y, dtype=object)
    if values.ndim == 1:
        bad = [i for i, v in enumerate(values) if v is None or _is_nan(v)]
        if bad:
            listed = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
            raise ValueError(f"y is missing (NaN or None) in {len(bad)} row(s): {listed}.")


def plain_labels(y: Array) -> Array:
    """Objects that are all numbers become numbers; text stays text."""
    if y.dtype != object:
        return y
    text = [isinstance(v, str) for v in y]
    if any(text) and not all(text):
        raise ValueError("y must not mix text and numbers. Convert it: y = y.astype(str).")
    return y if any(text) else np.array(y.tolist())


def warn_of_blanks(classes: Array) -> None:
    """Warn of names such as "A" and "A "."""
    if classes.dtype.kind in "UO":
        seen: dict[str, str] = {}
        for name in classes.tolist():
            other = seen.setdefault(str(name).strip(), name)
            if other != name:
                warnings.warn(
                    f"classes {other!r} and {name!r} differ only by blanks.",
                    UserWarning,
                    stacklevel=4,
                )


def checked_weights(sample_weight: Any, X: Array) -> Array:
    """Sample weights as float64, ones if left out."""
    if sample_weight is None:
        return np.ones(len(X))
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError(f"sample_weight must not be negative, got {weight.min():g}.")
    if not (weight > 0).any():
        raise ValueError("sample_weight must not be zero everywhere.")
    return weight


def label_matrix(y: Any) -> NDArray[np.int64]:
    """Several targets as 0 and 1: numbers, booleans, or the words true and false."""
    words = {"0": 0, "1": 1, "true": 1, "false": 0, "0.0": 0, "1.0": 1}
    values = np.asarray(y)
    found = [words.get(str(v).lower(), -1) for v in values.ravel().tolist()]
    if -1 in found:
        bad = values.ravel()[found.index(-1)]
        raise ValueError(
            f"several targets must hold 0 and 1 (or true and false) each, got {bad!r}. For one "
            "target with several classes, give that column alone."
        )
    return np.array(found, dtype=np.int64).reshape(values.shape)


def codes_and_classes(y: Any, pos_label: Any = None) -> tuple[Array, Array | None]:
    """Numbers of classes and the classes; the positive one of two is the last.

    Of several targets ``(n, labels)``: 0 and 1, and ``None``.

    >>> codes_and_classes(["no", "yes", "no"], pos_label="no")
    (array([1, 0, 1]), array(['yes', 'no'], dtype='<U3'))
    """
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] > 1:
        if pos_label is not None:
            raise ValueError("pos_label is for two classes; there are several targets.")
        return label_matrix(values), None
    if values.ndim == 2:
        warnings.warn("y has shape (n, 1); its only column is taken.", UserWarning, stacklevel=3)
        values = values.ravel()
    refuse_missing(values)
    values = plain_labels(values)
    _refuse_continuous(values)
    classes, codes = np.unique(values, return_inverse=True)
    warn_of_blanks(classes)
    known = classes.tolist()
    if len(known) < 2:
        raise ValueError(f"y must hold at least two classes, got one class only: {known[0]!r}.")
    if pos_label is None:
        return codes, classes
    if len(known) > 2:
        raise ValueError(f"pos_label is for two classes; y holds {len(known)}.")
    place = (
        [str(c) for c in known].index(str(pos_label)) if str(pos_label) in map(str, known) else -1
    )
    if place < 0:
        raise ValueError(f"pos_label must be one of {known}, got {pos_label!r}.")
    return (codes, classes) if place == 1 else (1 - codes, classes[::-1])


def _refuse_continuous(values: Array) -> None:
    if values.dtype.kind == "f" and (broken := values[values != np.floor(values)]).size:
        raise ValueError(
            f"y must hold classes, got {len(np.unique(values))} different numbers such as "
            f"{broken[0]:g}: a continuous target. Cut it into classes."
        )
