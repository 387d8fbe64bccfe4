"""Each baseline against a sum written out by hand, by gradcheck, and for many networks at once."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from softset.losses.dice import DiceLoss, ExampleDiceLoss
from softset.losses.wmw import WMWLoss
from softset.training.members import Member, train_members
from softset.training.judging import member_losses
from softset_papers.baselines.adversarial import AdversarialF1Loss, is_installed

needs_package = pytest.mark.skipif(not is_installed(), reason="ap_perf is not installed")


def problem(n=23, seed=0, positives=0.4):
    g = torch.Generator().manual_seed(seed)
    z = 2 * torch.randn(n, generator=g, dtype=torch.float64)
    y = (torch.rand(n, generator=g) < positives).long()
    w = torch.rand(n, generator=g, dtype=torch.float64) + 0.1
    return z, y, w


def dice(z, y, w):
    p = [1 / (1 + np.exp(-v)) for v in z]
    top = sum(2 * c * a * b for a, b, c in zip(p, y, w, strict=True))
    return 1 - top / sum(c * (a * a + b * b) for a, b, c in zip(p, y, w, strict=True))


def example_dice(z, y, w):
    p = [1 / (1 + np.exp(-v)) for v in z]
    each = [1 - 2 * a * b / (a * a + b * b) for a, b in zip(p, y, strict=True)]
    return np.average(each, weights=w)


def logit_dice(z, y, w):
    return np.average(
        [1 - 2 * a * b / (a * a + b * b) for a, b in zip(z, y, strict=True)], weights=w
    )


def wmw(z, y, w, gamma=0.2, power=3):
    p, total, pairs = [1 / (1 + np.exp(-v)) for v in z], 0.0, 0.0
    for i, j in itertools.product(range(len(y)), repeat=2):
        if y[i] == 1 and y[j] == 0:
            pairs += w[i] * w[j]
            total += w[i] * w[j] * max(0, gamma - (p[i] - p[j])) ** power
    return total / pairs


LOSSES = [
    (DiceLoss(), dice),
    (ExampleDiceLoss(), example_dice),
    (ExampleDiceLoss("logit"), logit_dice),
    (WMWLoss(), wmw),
    (WMWLoss(0.5, 2), lambda *a: wmw(*a, gamma=0.5, power=2)),
    (WMWLoss(1, 1), lambda *a: wmw(*a, gamma=1, power=1)),
]
every_loss = pytest.mark.parametrize(("loss", "brute"), LOSSES)


@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_value_is_the_sum_written_out(loss, brute, seed):
    z, y, w = problem(seed=seed)
    plain = brute(z.tolist(), y.tolist(), [1.0] * len(y))
    assert loss(z, y).item() == pytest.approx(plain, abs=1e-12)
    weighted = brute(z.tolist(), y.tolist(), w.tolist())
    assert loss(z.unsqueeze(1), y, w).item() == pytest.approx(weighted, abs=1e-12)


@every_loss
def test_gradient(loss, brute):
    z, y, w = problem(11)
    assert torch.autograd.gradcheck(lambda s: loss(s, y, w), z.requires_grad_())


@every_loss
@pytest.mark.parametrize("own", [False, True])
def test_many_members_at_once_are_each_alone(loss, brute, own):
    many = [problem(31, seed) for seed in range(4)]
    z = torch.stack([m[0] for m in many])
    y = torch.stack([m[1] for m in many]) if own else many[0][1]
    w = torch.stack([m[2] for m in many]) if own else many[0][2]
    together = member_losses(loss, z, y.double(), w)
    alone = [loss(z[k], y[k] if own else y, w[k] if own else w) for k in range(4)]
    assert torch.allclose(together, torch.stack(alone), atol=1e-12, rtol=0)


@every_loss
@pytest.mark.parametrize("label", [0, 1])
def test_one_class_and_saturated_scores_stay_finite(loss, brute, label):
    z = torch.tensor([-1e4, -3.0, 0.0, 2.0, 1e4], requires_grad=True)
    value = loss(z, torch.full((5,), label))
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()


@every_loss
def test_it_trains_in_the_engine(loss, brute):
    z, y, _ = problem(120)
    x = torch.stack([z + 3 * y, -z], 1).float()
    trained = train_members(
        (4,), (x[:80], y[:80]), (x[80:], y[80:]), recipe=loss, max_epochs=3,
        members=[Member(seed=s) for s in range(2)],
    )  # fmt: skip
    assert trained.scores(x).isfinite().all()


def test_ties_among_pairs_count_fully():
    """Equal probabilities are a distance of 0, below gamma: gamma^power each."""
    z = torch.zeros(7, dtype=torch.float64)
    y = torch.tensor([1, 0, 0, 1, 0, 1, 0])
    assert WMWLoss()(z, y).item() == pytest.approx(0.2**3)


def test_negatives_teach_nothing_in_the_per_example_form():
    z, y, _ = problem()
    z.requires_grad_()
    ExampleDiceLoss()(z, y).backward()
    assert (z.grad[y == 0] == 0).all()
    assert (z.grad[y == 1] != 0).all()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: WMWLoss(gamma=0), "gamma"),
        (lambda: WMWLoss(power=2.5), "power"),
        (lambda: ExampleDiceLoss("odds"), "output"),
        (lambda: AdversarialF1Loss(1), "piece"),
        (lambda: DiceLoss()(torch.zeros(2), torch.tensor([1, -1])), "target"),
    ],
)
def test_bad_arguments_are_named(make, word):
    with pytest.raises(ValueError, match=word):
        make()


# --- adversarial ---------------------------------------------------------------------------------


@needs_package
@pytest.mark.parametrize("spread", [0.02, 0.5, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_adversarial_slope_is_that_of_the_package(seed, spread):
    """Its projections stop short of the nearest point: at large scores marginals reach 1.0024."""
    import ap_perf

    class F1(ap_perf.PerformanceMetric):
        def define(self, c):
            return (2 * c.tp) / (c.ap + c.pp)

    metric = F1()
    metric.initialize()
    metric.enforce_special_case_positive()
    z, y, _ = problem(20, seed)
    z = (z * spread).requires_grad_()
    (slope,) = torch.autograd.grad(AdversarialF1Loss()(z, y), z)
    (theirs,) = torch.autograd.grad(ap_perf.MetricLayer(metric)(z, y.double()).sum(), z)
    assert torch.allclose(slope, theirs.double(), atol=5e-3)


def f1(a, b):
    found = sum(i * j for i, j in zip(a, b, strict=True))
    return 1.0 if sum(a) + sum(b) == 0 else 2 * found / (sum(a) + sum(b))


def adversary(z):
    """Value and marginals of the adversary, from a linear program over all 2^n labellings.

    Variables Q(y') and v: minimise v - E z.y', with v >= E F1(answer, y') for every answer.
    """
    every = list(itertools.product((0, 1), repeat=len(z)))
    cost = [-float(np.dot(z, b)) for b in every] + [1.0]
    upper = [[f1(a, b) for b in every] + [-1.0] for a in every]
    found = linprog(
        cost,
        upper,
        [0.0] * len(every),
        [[1.0] * len(every) + [0.0]],
        [1.0],
        bounds=[(0, None)] * len(every) + [(None, None)],
    )
    return found.fun, np.array(every).T @ found.x[:-1]


@needs_package
@pytest.mark.parametrize("scores", [[0.3, -0.2], [1.0, 0.0, -1.0], [0.1, 0.4, 0.2]])
def test_adversarial_value_and_slope_are_those_of_the_whole_game(scores):
    z = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    loss = AdversarialF1Loss()(z, torch.zeros(len(scores)))
    loss.backward()
    value, marginals = adversary(scores)
    assert loss.item() == pytest.approx(-value, abs=0.05)
    assert z.grad.tolist() == pytest.approx(marginals.tolist(), abs=0.1)


@needs_package
def test_adversarial_gradient_scales_and_points_down():
    z, y, _ = problem(20)
    z = (z / 4).requires_grad_()
    loss = AdversarialF1Loss()
    (slope,) = torch.autograd.grad(loss(z, y), z)
    (double,) = torch.autograd.grad(2 * loss(z, y), z)
    assert torch.allclose(double, 2 * slope)
    with torch.no_grad():
        assert loss(z - 0.1 * slope, y) < loss(z, y)


@needs_package
def test_adversarial_refuses_weights_and_cuts_long_batches():
    z, y, w = problem(44)
    loss = AdversarialF1Loss(piece=22)
    with pytest.raises(ValueError, match="sample_weight"):
        loss(z, y, w)
    halves = [loss(z[:22], y[:22]), loss(z[22:], y[22:])]
    assert loss(z, y).item() == pytest.approx(sum(halves).item() / 2, abs=1e-9)


@pytest.mark.skipif(is_installed(), reason="ap_perf is installed")
def test_adversarial_says_what_to_install():
    with pytest.raises(ValueError, match="pip install ap_perf"):
        AdversarialF1Loss()(torch.zeros(3), torch.tensor([0, 1, 0]))
