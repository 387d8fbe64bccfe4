"""A plugin of pytest that puts our numbers into scikit-learn's own tests of metrics.

Each function of ``sklearn.metrics`` that we have a metric for is wrapped: scikit-learn's is called
as ever, with its checks, errors and warnings; then ours answers the same question, and the test
fails unless both agree to 1e-9. The test gets scikit-learn's number, which may differ from ours in
the last digits that some tests compare. A question that we do not answer (an option that we do not
have) is counted by its reason.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections import Counter

import numpy as np
import sklearn.metrics as skm
from sklearn.utils.multiclass import type_of_target

import softset as ss

ANSWERED: Counter[str] = Counter()
LEFT: Counter[str] = Counter()
NEAR = 1e-9
# In a test's name: why it is not run.
DESELECTED = {
    "array_api|mixed_array_api": "arrays of other libraries than NumPy",
    "classification_report": "a text, which scikit-learn makes of functions that are not wrapped",
    "hinge|log_loss|brier|d2_|likelihood": "no metric of ours",
    "dcg|lrap|label_ranking|coverage|ranking_loss": "no metric of ours",
    "roc_curve|roc_returns|det_curve|precision_recall_curve|test_auc": "curves, not their areas",
    "at_thresholds|compute_classification_thresholds": "curves, not their areas",
    "_ovo_|samples_(roc_auc|average_precision)": "no averages of ours",
    "confusion_matrix_dtype": "integers that overflow, where our counts are floats",
    "check_targets|nan_validation": "of scikit-learn's own insides",
    "regression|pairwise|multioutput_(array|regr)|mean_|r2_|max_error": "no classification",
}
# Of the common tests, which go over all metrics by their names: those that we have.
OURS = re.compile(
    r"accuracy|confusion_matrix|hamming|zero_one|jaccard|(precision|recall|f[\d.]+)_score|"
    r"matthews|kappa|roc_auc|average_precision|top_k"
)


class NotOursError(Exception):
    """A question that we do not answer, and why."""


def pytest_configure() -> None:
    for name, ours in ANSWERS.items():
        setattr(skm, name, _wrapped(getattr(skm, name), ours))


def pytest_collection_modifyitems(config, items) -> None:
    kept = [item for item in items if _is_run(item.name, item.fspath.basename)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def _is_run(name: str, file: str) -> bool:
    if any(re.search(words, name) for words in DESELECTED):
        return False
    return "[" not in name or file != "test_common.py" or bool(OURS.search(name.split("[", 1)[1]))


def pytest_terminal_summary(terminalreporter) -> None:
    terminalreporter.write_line(json.dumps({"answered": ANSWERED, "left": LEFT}))


def _wrapped(theirs, ours):
    @functools.wraps(theirs)
    def both(*args, **kwargs):
        expected = theirs(*args, **kwargs)
        given = inspect.signature(theirs).bind(*args, **kwargs)
        given.apply_defaults()
        try:
            found = ours(expected=expected, **given.arguments)
        except NotOursError as reason:
            LEFT[str(reason)] += 1
            return expected
        ANSWERED[theirs.__name__] += 1
        several = isinstance(expected, tuple)  # precision, recall, F, and support, which is theirs
        for mine, wanted in zip(found, expected, strict=False) if several else [(found, expected)]:
            np.testing.assert_allclose(mine, wanted, rtol=NEAR, atol=NEAR)
        return expected

    return both


# --- what is asked --------------------------------------------------------------------------------


def _weights(sample_weight):
    if sample_weight is None:
        return None
    w = np.asarray(sample_weight, dtype=np.float64)
    if (w < 0).any() or not w.sum() > 0:
        raise NotOursError("weights that are negative, or all zero, are refused")
    return w


def _dense(y):
    y = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    return y.ravel() if y.ndim == 2 and y.shape[1] == 1 else y


def _decided(y_true, y_pred, labels, sample_weight, absent=False):
    """Arguments of ``evaluate``, and the order of the classes that is asked for."""
    kinds = {type_of_target(y_true), type_of_target(y_pred)}
    true, said = _dense(y_true), _dense(y_pred)
    settings = {"from_logits": False, "sample_weight": _weights(sample_weight)}
    if len(true) == 0:
        raise NotOursError("no rows are refused")
    if kinds == {"multilabel-indicator"}:
        columns = list(range(true.shape[1]) if labels is None else labels)
        scores, target = said[:, columns].astype(float), true[:, columns].astype(int)
        return (scores, target), settings | {"task": "multilabel"}, list(range(len(columns)))
    classes = np.unique(np.concatenate([true, said]))
    order = classes if labels is None else np.asarray(labels)
    if set(order.tolist()) != set(classes.tolist()):
        raise NotOursError("labels that leave classes out, or add some")
    codes = [np.searchsorted(classes, y) for y in (true, said)]
    scores = np.eye(max(2, len(classes)))[codes[1]]
    places = np.searchsorted(classes, order).tolist()
    return (scores, codes[0]), settings | {"task": "multiclass"}, places


def _averaged(make, expected, y_true, y_pred, labels, pos_label, average, sample_weight, zero):
    """A metric that is averaged over classes, labels or rows."""
    if not (isinstance(zero, str) or zero == 0):
        raise NotOursError("a division by zero is 0")
    if np.isnan(expected).any():
        raise NotOursError("undefined is 0")
    if average == "binary":
        true, said = (_dense(y) == pos_label for y in (y_true, y_pred))
        w = _weights(sample_weight)
        return ss.evaluate(said * 1.0, true, make(), from_logits=False, sample_weight=w)
    rows, settings, places = _decided(y_true, y_pred, labels, sample_weight)
    if average == "samples":
        if sample_weight is not None:
            raise NotOursError("rows of a mean over rows have no weights")
        return ss.evaluate(*rows, make(average="micro"), per="image", **settings)
    value = ss.evaluate(*rows, make(average=average), **settings)
    return [value[k] for k in places] if average is None else value


def _of(make):
    def answer(
        *, expected, y_true, y_pred, labels, pos_label, average, sample_weight, zero_division
    ):
        return _averaged(
            make, expected, y_true, y_pred, labels, pos_label, average, sample_weight, zero_division
        )

    return answer


def _f_beta(beta):
    if not 1e-6 <= beta <= 1e6:
        raise NotOursError("a beta of 0, or infinite, is precision or recall")
    return functools.partial(ss.FBeta, beta)


def _fbeta(*, beta, **given):
    return _of(_f_beta(beta))(**given)


def _prf(*, expected, beta, warn_for, **given):
    makes = (ss.Precision, ss.Recall, _f_beta(beta))
    return [_of(m)(expected=e, **given) for m, e in zip(makes, expected, strict=False)]


def _joint(make):
    """A metric that is one number of several classes."""

    def answer(*, expected, y_true, y_pred, sample_weight, labels=None, normalize=True, **options):
        if np.isnan(expected):
            raise NotOursError("undefined is 0")
        rows, settings, _ = _decided(y_true, y_pred, labels, sample_weight)
        metric = make(settings["task"], **options)
        if normalize is not True:
            raise NotOursError("sums, not means")
        return ss.evaluate(*rows, metric, **settings)

    return answer


def _accuracy(task):
    if task == "multilabel":
        raise NotOursError("accuracy of labels is over labels, not over rows")
    return ss.Accuracy()


def _balanced(task, adjusted):
    if adjusted:
        raise NotOursError("adjusted for chance")
    return ss.BalancedAccuracy()


def _kappa(task, weights, replace_undefined_by=0):
    return ss.CohenKappa() if weights is None else ss.WeightedKappa(weights=weights)


def _kappa_score(*, y1, y2, **given):
    return _joint(_kappa)(y_true=y1, y_pred=y2, **given)


def _less(answer):
    def loss(*, expected, **given):
        return 1 - answer(expected=1 - expected, **given)

    return loss


def _matrix(*, expected, y_true, y_pred, labels, sample_weight, normalize):
    if normalize is not None:
        raise NotOursError("shares, not counts")
    rows, settings, places = _decided(y_true, y_pred, labels, sample_weight)
    return ss.confusion(*rows, matrix=True, **settings).matrix.numpy()[np.ix_(places, places)]


def _matrices(*, expected, y_true, y_pred, labels, sample_weight, samplewise):
    if samplewise:
        raise NotOursError("a matrix for each row")
    rows, settings, places = _decided(y_true, y_pred, labels, sample_weight)
    c = ss.confusion(*rows, **settings)
    cells = np.stack([getattr(c, cell).numpy() for cell in ("tn", "fp", "fn", "tp")], -1)
    return cells[places].reshape(-1, 2, 2)


# --- areas ----------------------------------------------------------------------------------------


def _area(make, y_true, y_score, average, sample_weight, one_against_rest, labels=None, pos=None):
    true, scores, w = _dense(y_true), np.asarray(y_score, dtype=np.float64), _weights(sample_weight)
    kind = type_of_target(y_true)
    settings = {"sample_weight": w}
    if kind == "multilabel-indicator":
        if average == "samples":
            raise NotOursError("areas are over classes or labels, not over rows")
        settings |= {"task": "multilabel"}
    elif kind == "multiclass" or (kind == "binary" and scores.ndim == 2 and scores.shape[1] > 2):
        if not one_against_rest or average == "samples":
            raise NotOursError("areas are one against the rest")
        classes = np.unique(true) if labels is None else np.asarray(labels)
        true = np.searchsorted(classes, true)
        scores = np.stack([scores[:, k] for k in range(scores.shape[1])], 1)
        # Scores that are no probabilities are ranked by their columns, as labels.
        true = (true[:, None] == np.arange(scores.shape[1])).astype(int)
        settings |= {"task": "multilabel"}
    else:
        positive = np.unique(true)[-1] if pos is None else pos
        true, scores, average = true == positive, scores.reshape(len(true), -1)[:, -1], "macro"
    return ss.evaluate(scores, true, make(average=average), **settings)


def _auroc(*, expected, y_true, y_score, average, sample_weight, max_fpr, multi_class, labels):
    make = functools.partial(ss.AUROC, max_fpr=max_fpr)
    rest = multi_class == "ovr"
    return _area(make, y_true, y_score, average, sample_weight, rest, labels)


def _average_precision(*, expected, y_true, y_score, average, pos_label, sample_weight):
    make = ss.AveragePrecision
    return _area(make, y_true, y_score, average, sample_weight, True, pos=pos_label)


def _top_k(*, expected, y_true, y_score, k, normalize, sample_weight, labels):
    scores, w = np.asarray(y_score, dtype=np.float64), _weights(sample_weight)
    if not normalize or scores.ndim == 1 or k >= scores.shape[1]:
        raise NotOursError("top k of two classes, of all, or as a sum")
    if any(len(set(row)) < len(row) for row in scores.tolist()):
        raise NotOursError("of equal scores the first is taken, not the last")
    classes = np.unique(y_true) if labels is None else np.asarray(labels)
    target = np.searchsorted(classes, _dense(y_true))
    metric = ss.At(ss.Recall(average="micro"), k=int(k))
    return ss.evaluate(scores, target, metric, task="multiclass", sample_weight=w, from_logits=True)


ANSWERS = {
    "precision_score": _of(ss.Precision),
    "recall_score": _of(ss.Recall),
    "f1_score": _of(ss.F1),
    "fbeta_score": _fbeta,
    "jaccard_score": _of(ss.Jaccard),
    "precision_recall_fscore_support": _prf,
    "accuracy_score": _joint(_accuracy),
    "zero_one_loss": _less(_joint(_accuracy)),
    "hamming_loss": _less(_joint(lambda task: ss.Accuracy())),
    "balanced_accuracy_score": _joint(_balanced),
    "matthews_corrcoef": _joint(lambda task: ss.MCC()),
    "cohen_kappa_score": _kappa_score,
    "confusion_matrix": _matrix,
    "multilabel_confusion_matrix": _matrices,
    "roc_auc_score": _auroc,
    "average_precision_score": _average_precision,
    "top_k_accuracy_score": _top_k,
}
