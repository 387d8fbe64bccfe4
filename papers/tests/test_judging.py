"""The numbers of each protocol, against sums over decisions written out."""

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    fbeta_score,
    precision_score,
    recall_score,
    roc_auc_score,
)

from softset_papers.datasets.splits import Part
from softset_papers.judging import Fitted, judge, judge_classes

LOGIT = {"output": "logit"}

GRID = np.arange(1, 10) / 10


@pytest.fixture
def case():
    rng = np.random.default_rng(0)

    def part(n):
        y = (rng.random(n) < 0.3).astype(int)
        return Part(np.zeros((n, 1), np.float32), y, rng.random(n) + 0.5), rng.normal(
            size=(2, n)
        ) + y

    (validation, v), (test, t) = part(80), part(90)
    return Fitted(v, t, {}), validation, test


def scores_at(cut, case, k):
    fitted, _, test = case
    said = (1 / (1 + np.exp(-fitted.test[k])) >= cut).astype(int)
    w = test.w
    return {
        "f1": f1_score(test.y, said, sample_weight=w),
        "f2": fbeta_score(test.y, said, beta=2, sample_weight=w),
        "accuracy": accuracy_score(test.y, said, sample_weight=w),
        "auroc": roc_auc_score(test.y, said, sample_weight=w),
        "f1 macro": f1_score(test.y, said, sample_weight=w, average="macro"),
    }


@pytest.mark.parametrize(("protocol", "cuts"), [
    ("published", GRID),
    ("code", 1 / (1 + np.exp(-GRID))),
])  # fmt: skip
def test_means_over_thresholds(protocol, cuts, case):
    values = judge(*case, LOGIT)[protocol]
    for k in range(2):
        each = [scores_at(cut, case, k) for cut in cuts]
        for name in each[0]:
            expected = np.mean([e[name] for e in each])
            assert values[name][k] == pytest.approx(expected, abs=1e-5)


def test_losses_that_end_in_a_sigmoid_are_never_cut_as_logits(case):
    values = judge(*case, {})
    assert values["code"] == values["published"]


def test_fair_is_at_half_and_tuned_on_validation_alone(case):
    fitted, validation, test = case
    fair = judge(*case, LOGIT)["fair"]
    for k in range(2):
        half = scores_at(0.5, case, k)
        for name in ("f1", "f2", "accuracy", "f1 macro"):
            assert fair[name][k] == pytest.approx(half[name], abs=1e-5)
        area = roc_auc_score(test.y, fitted.test[k], sample_weight=test.w)
        assert fair["auroc"][k] == pytest.approx(area, abs=1e-5)
        p = 1 / (1 + np.exp(-fitted.validation[k]))
        cuts = [*p, 1.0]
        best = max(
            f1_score(validation.y, p >= c, sample_weight=validation.w, zero_division=0)
            for c in cuts
        )
        tau = fair["threshold for f1"][k]
        reached = f1_score(validation.y, p >= tau, sample_weight=validation.w)
        assert reached == pytest.approx(best)
        tuned = scores_at(tau, case, k)["f1"]
        assert fair["f1 tuned"][k] == pytest.approx(tuned, abs=1e-5)


def test_other_test_labels_do_not_move_the_threshold(case):
    fitted, validation, test = case
    flipped = test._replace(y=1 - test.y)
    one, two = (judge(fitted, validation, t, LOGIT)["fair"] for t in (test, flipped))
    assert one["threshold for f1"] == two["threshold for f1"]


@pytest.mark.parametrize("options", [{"judged": "argmax"}, {"output": "sign"}])
def test_decisions_of_the_largest_probability_and_of_the_sign_are_those_at_half(case, options):
    values = judge(*case, options)
    for k in range(2):
        half = scores_at(0.5, case, k)
        for protocol in ("published", "code"):
            assert values[protocol]["f1"][k] == pytest.approx(half["f1"], abs=1e-5)
    decided = [scores_at(0.5, case, k)["auroc"] for k in range(2)]
    exact = values["fair"]["auroc"]
    said = decided if options == {"output": "sign"} else exact
    assert values["published"]["auroc"] == pytest.approx(said, abs=1e-5)


def test_f1_of_the_other_class(case):
    fitted, validation, test = case
    turned = Fitted(-fitted.validation, -fitted.test, {})
    one = judge(fitted, validation, test, {})["fair"]
    two = judge(turned, *(p._replace(y=1 - p.y) for p in (validation, test)), {})["fair"]
    assert one["f1 other"] == pytest.approx(two["f1"], abs=1e-5)
    assert one["f1 macro"] == pytest.approx(
        (np.array(one["f1"]) + np.array(one["f1 other"])) / 2, abs=1e-5
    )


def test_classes_are_judged_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    names = ("cat", "dog", "frog")
    y = torch.from_numpy(rng.integers(0, 3, 60))
    scores = torch.from_numpy(rng.normal(size=(60, 3))) + torch.eye(3)[y]
    values = judge_classes([scores], [scores], y, y, names)["fair"]
    said = scores.argmax(1)
    assert values["f1"][0] == pytest.approx(f1_score(y, said, average="macro"), abs=1e-5)
    for index, name in ((1, "dog"), (2, "frog")):
        one = {"labels": [index], "average": "macro"}
        assert values[f"precision {name}"][0] == pytest.approx(
            precision_score(y, said, **one), abs=1e-5
        )
        assert values[f"recall {name}"][0] == pytest.approx(recall_score(y, said, **one), abs=1e-5)
    assert values["f1 tuned"][0] >= values["f1"][0]  # tuned on the same rows here
