"""Pickles of this process for its own workers: they hold functions of the user's own, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

try:  # joblib brings it: inside, or from 1.6 on beside itself
    from joblib.externals import cloudpickle  # type: ignore[attr-defined,unused-ignore]
except ImportError:
    import cloudpickle  # type: ignore[no-redef,import-untyped,unused-ignore]


def dumps(value: Any) -> bytes:
    """What ``pickle.loads`` takes."""
    found: bytes = cloudpickle.dumps(value)
    return found


def dump(value: Any, path: Path) -> None:
    """The same as a file, for ``pickle.load``."""
    with open(path, "wb") as file:
        cloudpickle.dump(value, file)
