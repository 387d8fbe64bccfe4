"""softset: train a classifier for the metric it is judged by.

Public names load on first use (PEP 562), so that ``import softset`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = {
    "_tools": ["ratio"],
    "steps": ["STEPS", "HardStep", "IdentityStep", "LinearStep", "LookupStep", "SigmoidStep"],
    "counting": ["Confusion", "confusion"],
    "metrics": [
        "AUROC",
        "F1",
        "MCC",
        "METRICS",
        "Accuracy",
        "AveragePrecision",
        "BalancedAccuracy",
        "CohenKappa",
        "FBeta",
        "FowlkesMallows",
        "GMean",
        "Informedness",
        "Jaccard",
        "Markedness",
        "Precision",
        "Recall",
        "Specificity",
        "get_metric",
    ],
    "evaluation": ["evaluate"],
    "thresholds": ["best_offsets", "best_threshold"],
    "bounds": ["batch_size_for", "confusion_error_bound"],
    "losses": [
        "CrossEntropyLoss",
        "FocalLoss",
        "MeanAbsoluteErrorLoss",
        "MetricLoss",
        "SurrogateFBetaLoss",
        "balanced_class_weight",
        "metric_loss",
    ],
    "annealing": ["Annealing"],
    "training": ["Member", "Phase", "SavedFileError", "Trained", "fit", "train_members"],
    "estimators": ["MetricClassifier"],
    "boosting": ["lightgbm_objective", "xgboost_objective"],
    "boosting_estimator": ["MetricBoostingClassifier"],
    "forest": ["MetricForestClassifier"],
    "tables": ["TableEncoder", "infer_schema"],
    "datasets.files": ["read_table"],
    "models": ["Model", "load_model", "save_model", "train_model"],
    "comparison": ["compare"],
    "comparison_summary": ["Comparison"],
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = ["__version__", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'softset' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"softset.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if TYPE_CHECKING:
    from softset._tools import ratio as ratio
    from softset.annealing import Annealing as Annealing
    from softset.boosting import lightgbm_objective as lightgbm_objective
    from softset.boosting import xgboost_objective as xgboost_objective
    from softset.boosting_estimator import MetricBoostingClassifier as MetricBoostingClassifier
    from softset.bounds import batch_size_for as batch_size_for
    from softset.bounds import confusion_error_bound as confusion_error_bound
    from softset.comparison import compare as compare
    from softset.comparison_summary import Comparison as Comparison
    from softset.counting import Confusion as Confusion
    from softset.counting import confusion as confusion
    from softset.datasets.files import read_table as read_table
    from softset.estimators import MetricClassifier as MetricClassifier
    from softset.evaluation import evaluate as evaluate
    from softset.forest import MetricForestClassifier as MetricForestClassifier
    from softset.losses import CrossEntropyLoss as CrossEntropyLoss
    from softset.losses import FocalLoss as FocalLoss
    from softset.losses import MeanAbsoluteErrorLoss as MeanAbsoluteErrorLoss
    from softset.losses import MetricLoss as MetricLoss
    from softset.losses import SurrogateFBetaLoss as SurrogateFBetaLoss
    from softset.losses import balanced_class_weight as balanced_class_weight
    from softset.losses import metric_loss as metric_loss
    from softset.metrics import AUROC as AUROC
    from softset.metrics import F1 as F1
    from softset.metrics import MCC as MCC
    from softset.metrics import METRICS as METRICS
    from softset.metrics import Accuracy as Accuracy
    from softset.metrics import AveragePrecision as AveragePrecision
    from softset.metrics import BalancedAccuracy as BalancedAccuracy
    from softset.metrics import CohenKappa as CohenKappa
    from softset.metrics import FBeta as FBeta
    from softset.metrics import FowlkesMallows as FowlkesMallows
    from softset.metrics import GMean as GMean
    from softset.metrics import Informedness as Informedness
    from softset.metrics import Jaccard as Jaccard
    from softset.metrics import Markedness as Markedness
    from softset.metrics import Precision as Precision
    from softset.metrics import Recall as Recall
    from softset.metrics import Specificity as Specificity
    from softset.metrics import get_metric as get_metric
    from softset.models import Model as Model
    from softset.models import load_model as load_model
    from softset.models import save_model as save_model
    from softset.models import train_model as train_model
    from softset.steps import STEPS as STEPS
    from softset.steps import HardStep as HardStep
    from softset.steps import IdentityStep as IdentityStep
    from softset.steps import LinearStep as LinearStep
    from softset.steps import LookupStep as LookupStep
    from softset.steps import SigmoidStep as SigmoidStep
    from softset.tables import TableEncoder as TableEncoder
    from softset.tables import infer_schema as infer_schema
    from softset.thresholds import best_offsets as best_offsets
    from softset.thresholds import best_threshold as best_threshold
    from softset.training import Member as Member
    from softset.training import Phase as Phase
    from softset.training import SavedFileError as SavedFileError
    from softset.training import Trained as Trained
    from softset.training import fit as fit
    from softset.training import train_members as train_members
