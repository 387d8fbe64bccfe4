from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import softset as ss
from tests.reference import TASKS, random_problem


@pytest.mark.parametrize("task", TASKS)
def test_losses_add_and_scale(task):
    z, y = random_problem(task)
    w = torch.linspace(0.1, 2, len(z), dtype=torch.float64)
    a, b = ss.CrossEntropyLoss(task=task), ss.MetricLoss("dice", task=task)
    c = ss.FocalLoss(task=task)
    for weight in ((), (w,)):
        one, two, three = (loss(z, y, *weight) for loss in (a, b, c))
        for mixture, wanted in (
            (0.5 * a + b, 0.5 * one + two),
            (a * 2 + 3 * b, 2 * one + 3 * two),
            (0.5 * (a + 2 * b) + c, 0.5 * one + two + three),
            (sum([a, b, c]), one + two + three),
        ):
            torch.testing.assert_close(mixture(z, y, *weight), wanted)
            for other in (pickle.loads(pickle.dumps(mixture)), copy.deepcopy(mixture)):
                torch.testing.assert_close(other(z, y, *weight), wanted)
    x = z.clone().requires_grad_()
    assert torch.autograd.gradcheck(0.5 * a + b, (x, y))


def test_losses_of_pytorch_may_be_added_to_ours():
    z, y = random_problem("binary")
    mixture = ss.MetricLoss("dice") + nn.BCEWithLogitsLoss()
    wanted = ss.CrossEntropyLoss() + ss.MetricLoss("dice")
    torch.testing.assert_close(mixture(z, y.double()), wanted(z, y))
    torch.testing.assert_close((nn.BCEWithLogitsLoss() + ss.MetricLoss("dice"))(z, y.double()),
                               wanted(z, y))  # fmt: skip


def test_weights_move_with_the_epoch():
    z, y = random_problem("binary")
    entropy, dice = ss.CrossEntropyLoss(), ss.MetricLoss("dice")
    mixture = 0.5 * (ss.losses.Ramp(1.0, 0.0, 4) * entropy + (lambda epoch: epoch / 2) * dice)
    assert mixture.moves
    assert not (entropy + dice).moves
    for epoch in (0, 2, 4, 7):
        mixture.epoch = epoch
        wanted = 0.5 * (max(0, 1 - epoch / 4) * entropy(z, y) + epoch / 2 * dice(z, y))
        torch.testing.assert_close(mixture(z, y), wanted)
    again = pickle.loads(pickle.dumps(ss.losses.Ramp(1.0, 0.0, 4) * entropy))
    assert again.moves


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_mixtures_compile_once_for_all_epochs():
    torch.compiler.reset()
    z, y = random_problem("binary", dtype=torch.float32)
    mixture = ss.losses.Ramp(1.0, 0.0, 4) * ss.CrossEntropyLoss() + ss.MetricLoss("dice")
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(mixture, fullgraph=True, backend=count)
    for epoch in range(4):
        mixture.epoch = epoch
        x, again = z.clone().requires_grad_(), z.clone().requires_grad_()
        mixture(x, y).backward()
        compiled(again, y).backward()
        torch.testing.assert_close(again.grad, x.grad, rtol=1e-5, atol=1e-7)
    assert len(graphs) == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ss.MetricLoss("dice", pos_weight=3), ValueError, r"class_weight=\[1, pos_weight"),
        (lambda: ss.MetricLoss(weight=[1, 2]), ValueError, "class_weight weighs classes"),
        (lambda: ss.CrossEntropyLoss(reduction="sum"), ValueError, "a loss is one number"),
        (lambda: ss.FocalLoss(2.0, label_smoothing=0.1), ValueError, "soft_targets=True"),
        (
            lambda: ss.metric_loss(torch.zeros(2), torch.zeros(2), reduction="none"),
            ValueError,
            "metric_loss has no reduction",
        ),
        (lambda: ss.MetricLoss(treshold=0.3), TypeError, "treshold.*Did you mean 'threshold'"),
        (lambda: ss.CrossEntropyLoss(tasks="binary"), TypeError, "Did you mean 'task'"),
        (lambda: ss.MetricLoss() + 3, ValueError, "a loss can be added to a loss, got 3"),
        (lambda: -1 * ss.MetricLoss(), ValueError, r"weight must be in \[0, inf\), got -1"),
        (lambda: "a" * ss.MetricLoss(), ValueError, "weight must be a number or a function"),
        (lambda: ss.losses.Ramp(1.0, 0.0, 0), ValueError, "epochs must be an integer"),
    ],
)
def test_words_of_other_libraries_are_told_ours(make, error, message):
    with pytest.raises(error, match=message):
        make()
