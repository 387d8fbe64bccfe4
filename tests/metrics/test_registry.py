from __future__ import annotations

import numpy as np
import pytest
import torch

import softset as ss
from softset.metrics.registry import pack_metric, unpack_metric
from tests.oracles import oracle
from tests.reference import TASKS, random_problem

NAMES = [(key, alias) for key, row in ss.METRICS.items() for alias in (key, *row.aliases)]


@pytest.mark.parametrize(("key", "name"), NAMES)
@pytest.mark.parametrize("average", ["", "macro", "micro", "weighted"])
def test_every_name_means_what_it_means_in_scikit_learn(key, name, average):
    """With every average, as a scorer's name and as a function's; or it is refused in one line."""
    names = [f"{n}_{average}".rstrip("_") for n in (name, f"{name}_score")]
    if average and ss.METRICS[key].averages == ("macro",):
        for given in names:
            with pytest.raises(ValueError, match=f"{key} is not averaged. Use '{key}'.$"):
                ss.get_metric(given)
        return
    for task in TASKS:
        z, y = random_problem(task, n=40, seed=1)
        p = (torch.softmax(z, 1) if task == "multiclass" else torch.sigmoid(z)).numpy()
        said = p.argmax(1) if task == "multiclass" else (p >= 0.5).astype(int)
        both = bool(average) and task == "binary"
        for w in (None, np.random.default_rng(0).uniform(0.1, 3, 40)):
            wanted = oracle(key, task, average or "macro", y.numpy(), said, p, w, both=both)
            for given in names:
                got = ss.evaluate(z, y, given, task=task, sample_weight=w, from_logits=True)
                assert got == pytest.approx(wanted, abs=1e-12), (given, task)


def test_names_lead_back_to_the_metric():
    for name in ss.METRICS:
        assert ss.get_metric(name).name == name
        assert ss.get_metric(ss.get_metric(name).name) == ss.get_metric(name)
    for name in ("f3", "f1_micro", "f2_macro", "recall_weighted"):
        assert ss.get_metric(name).name == name
    assert ss.get_metric("F1") == ss.F1()


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("f1_scor", "Did you mean 'f1'"),
        ("recal", "Did you mean 'recall'"),
        ("mcc_macro", "mcc is not averaged"),
        ("f0", "not known"),
        (3, "metric must be a name"),
        (ss.MCC, "must be called first"),
    ],
)
def test_unknown_metrics_are_refused_with_a_hint(metric, message):
    with pytest.raises(ValueError, match=message):
        ss.get_metric(metric)


@pytest.mark.parametrize("name", ["f11", "f12", "f111", "f10.5", "F11", "f11_macro"])
def test_a_slip_of_the_finger_is_no_metric(name):
    """-m f11 trained F-beta with beta 11, and said yes to all rows."""
    with pytest.raises(ValueError, match=r"not known. Did you mean 'f\d.*'fbeta\(1"):
        ss.get_metric(name)


@pytest.mark.parametrize("beta", [1e-5, 1 / 3, 0.5, 1, 10, 10.5, 11, 123456.789, (0.5, 2), (11, 1)])
@pytest.mark.parametrize("average", ["macro", "micro"])
def test_every_beta_has_a_name_that_leads_back(beta, average):
    metric = ss.FBeta(beta, average, both_classes=average == "micro")
    assert ss.get_metric(metric.name) == metric
    assert unpack_metric(pack_metric(metric)) == metric


def test_numbers_between_brackets_are_numbers():
    with pytest.raises(ValueError, match="must hold numbers"):
        ss.get_metric("fbeta(1,,2)")


def test_a_beta_is_asked_for():
    with pytest.raises(ValueError, match=r"Say which beta: 'f2', 'f0\.5'"):
        ss.get_metric("fbeta")


def test_names_of_scikit_learns_functions():
    for name in ("f1_score", "recall_score", "roc_auc_score", "cohen_kappa_score"):
        assert ss.get_metric(name).name == ss.get_metric(name.removesuffix("_score")).name
    with pytest.raises(ValueError, match="Say which beta"):
        ss.get_metric("fbeta_score")
    with pytest.raises(ValueError, match="'average_precision'"):
        ss.get_metric("pr_auc")
