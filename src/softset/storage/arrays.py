"""Parameters and arrays as plain data, and back, without running code."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np

from softset.storage.files import SavedFileError
from softset.typing import Array, Settings

# The dtypes that are read back, and what their values are in JSON.
_DTYPE = re.compile(r"O|[<>|=]?[biufU]\d{1,8}")
_TYPES: dict[str, tuple[type, ...]] = {
    "b": (bool,),
    "i": (int,),
    "u": (int,),
    "f": (int, float),
    "U": (str,),
    "O": (type(None), bool, int, float, str),
}
# Every text of an array takes the memory of the longest: more than this is no list of names.
_MOST_BYTES = 2**26


def plain(value: Any) -> Any:
    """Parameters as JSON has them; None for objects that it has not."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(v) for v in value)
    return value if value is None or isinstance(value, bool | int | float | str) else None


def pack_array(values: Array) -> Settings:
    """Numbers or names with their dtype."""
    kind = "O" if values.dtype == object else values.dtype.str
    return {"dtype": kind, "values": [plain(v) for v in values.tolist()]}


def unpack_array(packed: Settings) -> Array:
    """The inverse of ``pack_array``: one dimension of booleans, numbers, text or plain objects.

    Every value must be finite and what the dtype says, and no text longer than it says: numpy
    would convert, cut off, or reserve whatever memory a hostile file asks for.

    >>> unpack_array({"dtype": "<U3", "values": ["no", "yes"]})
    array(['no', 'yes'], dtype='<U3')
    """
    name, values = packed["dtype"], packed["values"]
    if not isinstance(name, str) or not _DTYPE.fullmatch(name) or not isinstance(values, list):
        raise SavedFileError(f"an array of dtype {name!r} is not allowed.")
    dtype = np.dtype(name)
    if len(values) * dtype.itemsize > _MOST_BYTES:
        raise SavedFileError(f"{len(values)} values of dtype {name!r} are too large.")
    if not all(type(value) in _TYPES[dtype.kind] for value in values):
        raise SavedFileError(f"an array of dtype {name!r} holds something else.")
    array = np.empty(len(values), dtype)
    try:
        with np.errstate(over="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of numpy 1, which wraps around
            array[:] = values
        exact = all(math.isfinite(v) for v in values if type(v) is float)
        exact = exact and array.tolist() == values
    except OverflowError:
        exact = False
    if not exact:
        raise SavedFileError(f"an array of dtype {name!r} holds values that do not fit.")
    return array
