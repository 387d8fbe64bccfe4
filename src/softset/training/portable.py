"""Parameters, arrays and metrics as plain data, and back, without running code."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softset import metrics as metric_module
from softset.metrics import Custom, Metric, MetricLike, get_metric
from softset.training.checkpoints import SavedFileError

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


def pack_metric(metric: MetricLike) -> Any:
    """A name, or a metric of ours by the name of its class and its fields."""
    if isinstance(metric, str):
        return metric
    found = get_metric(metric)
    if isinstance(found, Custom) or type(found).__module__ != metric_module.__name__:
        return None
    return {"class": type(found).__name__, "fields": plain(dataclasses.asdict(found))}


def unpack_metric(packed: Any) -> MetricLike | None:
    """The inverse of ``pack_metric``; ``None`` for a metric of the user\'s own."""
    if packed is None or isinstance(packed, str):
        return packed
    kind = getattr(metric_module, packed["class"])
    if not issubclass(kind, Metric):
        raise ValueError(f"{packed['class']} is no metric")
    return kind(**packed["fields"])


def restored_metric(packed: Any, given: MetricLike | None) -> MetricLike:
    """The metric that was saved, or the one that is ``given``; one of them is needed."""
    metric = unpack_metric(packed) if given is None else given
    if metric is None:
        raise SavedFileError(
            "it was saved with a metric of your own. Pass it: load(path, metric=...)."
        )
    return metric
