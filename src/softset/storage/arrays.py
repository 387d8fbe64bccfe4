"""Parameters and arrays as plain data, and back, without running code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def plain(value: Any) -> Any:
    """Parameters as JSON has them; objects that are not are left out."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(v) for v in value)
    return value if value is None or isinstance(value, bool | int | float | str) else None


def pack_array(values: Array) -> dict[str, Any]:
    """Numbers or names with their dtype."""
    kind = "O" if values.dtype == object else values.dtype.str
    return {"dtype": kind, "values": [plain(v) for v in values.tolist()]}


def unpack_array(packed: dict[str, Any]) -> Array:
    """The inverse of ``pack_array``."""
    dtype = np.dtype(packed["dtype"])
    if dtype.kind not in "biufUO":
        raise ValueError(f"dtype {dtype} is not allowed")
    return np.array(packed["values"], dtype=dtype)
