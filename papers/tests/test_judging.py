"""The numbers of each protocol, against sums over decisions written out."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, fbeta_score, roc_auc_score

from softset_papers.datasets.splits import Part
from softset_papers.judging import judge
from softset_papers.networks import Fitted, class_weights, make_loss

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
    values = judge(*case, logit_output=True)[protocol]
    for k in range(2):
        each = [scores_at(cut, case, k) for cut in cuts]
        for name in each[0]:
            expected = np.mean([e[name] for e in each])
            assert values[name][k] == pytest.approx(expected, abs=1e-5)


def test_losses_that_end_in_a_sigmoid_are_never_cut_as_logits(case):
    values = judge(*case, logit_output=False)
    assert values["code"] == values["published"]


def test_fair_is_at_half_and_tuned_on_validation_alone(case):
    fitted, validation, test = case
    fair = judge(*case, logit_output=True)["fair"]
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
    one, two = (judge(fitted, validation, t, True)["fair"] for t in (test, flipped))
    assert one["threshold for f1"] == two["threshold for f1"]


def test_weights_of_the_paper():
    """000 table 8: 4800 pairs with 1454 positives give 0.72 and 1.65."""
    y = np.array([1] * 1454 + [0] * 3346)
    part = Part(np.zeros((4800, 1), np.float32), y, None)
    assert class_weights(part) == pytest.approx([0.72, 1.65], abs=0.005)


def test_unknown_losses_are_refused():
    with pytest.raises(ValueError, match="Did you mean 'bce'"):
        make_loss({"loss": "bc"}, None)
