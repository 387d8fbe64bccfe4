"""Each loss of a batch against a sum written out by hand, by gradcheck, and for many networks at
once."""

from __future__ import annotations

import pytest
import torch

from softset.training.judging import member_losses
from softset.training.members import train_members
from softset.training.stack import Member
from softset_papers.baselines.dice import DiceLoss, ExampleDiceLoss
from softset_papers.baselines.wmw import WMWLoss
from tests.baselines.problems import problem
from tests.baselines.test_dice import dice, example_dice, logit_dice
from tests.baselines.test_wmw import wmw

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
