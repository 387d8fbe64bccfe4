"""Types that annotations share. Nothing is loaded for them: the libraries are named for type
checkers only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array, csr_matrix
    from sklearn.model_selection import BaseCrossValidator
    from torch import Tensor

__all__ = [
    "CV",
    "JSON",
    "Array",
    "ArrayLike",
    "Bools",
    "ClassWeight",
    "Floats",
    "Frame",
    "Ints",
    "Label",
    "Labels",
    "Matrix",
    "PathLike",
    "RandomState",
    "Rows",
    "Settings",
    "State",
    "TensorLike",
    "Threshold",
]

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

PathLike: TypeAlias = "str | os.PathLike[str]"  # a file or a folder, as a user names it

# What a user passes: converted and checked on entry, never deeper.
TensorLike: TypeAlias = "Tensor | ArrayLike"  # scores, targets and weights of losses and metrics
Frame: TypeAlias = "pd.DataFrame"
Matrix: TypeAlias = "Floats | csr_array | csr_matrix"  # numbers, dense or sparse
Rows: TypeAlias = "Frame | csr_array | csr_matrix | ArrayLike"  # X of an estimator
Labels: TypeAlias = "pd.Series | Frame | ArrayLike"  # y of an estimator
Threshold: TypeAlias = "float | Sequence[float] | Floats | Tensor"  # one, or one for each label

# Parameters of estimators, as scikit-learn has them.
Label: TypeAlias = "str | int | float | bool | np.generic"  # one class
ClassWeight: TypeAlias = "str | Mapping[Label, float] | Sequence[Mapping[Label, float]] | None"
RandomState: TypeAlias = "int | np.random.RandomState | None"
CV: TypeAlias = "int | str | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]]"

# Plain data of saved files, and keyword arguments that are passed on as they are.
JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Settings: TypeAlias = dict[str, Any]
State: TypeAlias = dict[str, Any]  # what a model or a run saves: plain data, arrays and tensors
