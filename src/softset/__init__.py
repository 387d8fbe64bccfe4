"""Differentiable confusion-matrix metrics for PyTorch and scikit-learn.

Public names are listed in ``__init__.pyi`` and load on first use, so that ``import softset`` is
quick.
"""

import lazy_loader

__version__ = "0.2.0"

_load, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]  # noqa: PLE0604

# Names of version 0.2, and what replaces them.
_RENAMED = {
    "MetricClassifier": "MetricMLPClassifier",
    "MetricForestClassifier": 'MetricThresholdClassifier(RandomForestClassifier(), cv="oob")',
    "LookupStep": "softset_papers.networks.losses.LookupStep",
    "fit": "softset.training.fit",
    "train_members": "softset.training.train_members",
    "Member": "softset.training.Member",
    "Trained": "softset.training.Trained",
    "Phase": "softset.training.Phase",
    "Accumulation": "softset.training.Accumulation",
    "Ramp": "softset.losses.Ramp",
    "MeanAbsoluteErrorLoss": "softset.losses.MeanAbsoluteErrorLoss",
    "balanced_class_weight": "softset.losses.balanced_class_weight",
    "batch_size_for": "softset.losses.batch_size_for",
    "confusion_error_bound": "softset.losses.confusion_error_bound",
    "STEPS": "softset.counting.STEPS",
    "ratio": "softset.counting.ratio",
    "infer_schema": "softset.tables.infer_schema",
    "TableEncoder": "softset.tables.TableEncoder",
    "read_table": "softset.tables.read_table",
    "save_model": "softset.classifiers.save_model",
    "worst_mistakes": "softset.classifiers.worst_mistakes",
    "permutation_importances": "softset.classifiers.permutation_importances",
    "expected_dice_mask": "softset.decisions.expected_dice_mask",
}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise AttributeError(f"softset.{name} is now {_RENAMED[name]}.")
    return _load(name)
