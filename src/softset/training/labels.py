"""Labels and weights as users have them: checked, with the trouble named."""

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
