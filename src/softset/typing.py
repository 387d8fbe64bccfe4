"""Types that annotations share. Nothing is loaded for them: the libraries are named for type
checkers only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import pyarrow as pa
    from scipy.sparse import csr_array, csr_matrix
    from sklearn.model_selection import BaseCrossValidator
    from torch import Tensor

__all__ = [
    "CV",
    "JSON",
    "Array",
    "ArrayLike",
    "ArrowColumn",
    "ArrowSchema",
    "ArrowTable",
    "Bools",
    "ClassWeight",
    "Floats",
    "Frame",
    "Groups",
    "Ints",
    "Label",
    "Labels",
    "Matrix",
    "PathLike",
    "RandomState",
    "Rows",
    "Series",
    "Settings",
    "State",
    "TensorLike",
    "Threshold",
    "Weights",
]

ArrayLike: TypeAlias = "npt.ArrayLike"
Array: TypeAlias = "npt.NDArray[Any]"
Floats: TypeAlias = "npt.NDArray[np.float64]"
Ints: TypeAlias = "npt.NDArray[np.int64]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"

PathLike: TypeAlias = "str | os.PathLike[str]"  # a file or a folder, as a user names it

# What a user passes: converted and checked on entry, never deeper.
TensorLike: TypeAlias = "Tensor | ArrayLike"  # scores and targets of losses and metrics
Weights: TypeAlias = "TensorLike | None"  # one for each row or position, or for each class
Groups: TypeAlias = "str | TensorLike"  # "batch", "image", or the group number of each row
Frame: TypeAlias = "pd.DataFrame"
Series: TypeAlias = "pd.Series"
ArrowTable: TypeAlias = "pa.Table"
ArrowColumn: TypeAlias = "pa.ChunkedArray"
ArrowSchema: TypeAlias = "pa.Schema"
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
