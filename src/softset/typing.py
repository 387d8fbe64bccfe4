"""Types that annotations share. Nothing is loaded for them: the libraries are named for type
checkers only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array, csr_matrix
    from torch import Tensor

__all__ = [
    "JSON",
    "Array",
    "ArrayLike",
    "Floats",
    "Frame",
    "Ints",
    "Labels",
    "Rows",
    "Settings",
    "TensorLike",
    "Threshold",
]

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

# What a user passes: converted and checked on entry, never deeper.
TensorLike: TypeAlias = "Tensor | ArrayLike"  # scores, targets and weights of losses and metrics
Frame: TypeAlias = "pd.DataFrame"
Rows: TypeAlias = "Frame | csr_array | csr_matrix | ArrayLike"  # X of an estimator
Labels: TypeAlias = "pd.Series | Frame | ArrayLike"  # y of an estimator
Threshold: TypeAlias = "float | Sequence[float] | Floats | Tensor"  # one, or one for each label

# Plain data of saved files, and keyword arguments that are passed on as they are.
JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Settings: TypeAlias = dict[str, Any]
