"""Members that leave out folds: what they are trained on, what judges them, when they stop."""

from __future__ import annotations

import pytest
import torch

from softset.training import Member, train_members
from softset.training import stack as stack_module

SMALL = {"batch_size": 20, "max_epochs": 3, "recipe": "cross-entropy"}


@pytest.fixture
def rows():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(90, 3, generator=g)
    return x, (x[:, 0] + torch.randn(90, generator=g) > 0.5).long()


def test_a_member_never_sees_its_fold_and_is_judged_by_it(rows):
    x, y = rows
    folds = torch.arange(90) % 3
    trained = train_members(
        (4,), rows, members=[Member(s) for s in range(4)], folds=folds.tolist(), **SMALL
    )
    # Other labels in a member's own fold change what judges it, and nothing else: with patience
    # enough all of them are trained alike, but for the epoch that is kept.
    for k in range(4):
        flipped = torch.where(folds == k % 3, 1 - y, y)
        other = train_members(
            (4,), (x, flipped), members=[Member(s) for s in range(4)], folds=folds.tolist(), **SMALL
        )
        assert other.history[k]["loss"] == trained.history[k]["loss"]
        assert other.history[k]["validation_loss"] != trained.history[k]["validation_loss"]
        for j in {0, 1, 2, 3} - {k}:
            if j % 3 != k % 3:
                assert other.history[j]["loss"] != trained.history[j]["loss"]


def test_rows_in_no_fold_are_trained_on_by_all(rows):
    x, y = rows
    folds = (torch.arange(90) % 4) - 1  # a quarter is in none
    members = [Member(s) for s in range(3)]
    trained = train_members((4,), rows, members=members, folds=folds.tolist(), **SMALL)
    flipped = torch.where(folds == -1, 1 - y, y)
    other = train_members((4,), (x, flipped), members=members, folds=folds.tolist(), **SMALL)
    assert all(a["loss"] != b["loss"] for a, b in zip(trained.history, other.history, strict=True))


def test_validation_is_that_of_the_fold(rows):
    x, y = rows
    folds = torch.arange(90) % 3
    trained = train_members(
        (4,), rows, members=[Member(7)], folds=folds.tolist(), **SMALL | {"max_epochs": 1}
    )
    held = folds == 0
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        trained.scores(x[held])[0], y[held].float()
    )
    assert trained.history[0]["validation_loss"][0] == pytest.approx(float(loss), rel=1e-5)


def test_all_stop_at_the_epoch_with_the_best_mean(rows):
    members = [Member(s, learning_rate=0.1) for s in range(6)]
    settings = SMALL | {"max_epochs": 60, "patience": 3}
    folds = (torch.arange(90) % 3).tolist()
    trained = train_members((16,), rows, members=members, folds=folds, **settings)
    lengths = {len(h["loss"]) for h in trained.history}
    assert len(lengths) == 1
    assert lengths.pop() < 60
    means = torch.tensor([h["validation_loss"] for h in trained.history]).mean(0)
    best = int(means.argmin())
    assert len(means) - 1 - best == 3
    again = train_members(
        (16,), rows, members=members, folds=folds, **settings | {"max_epochs": best + 1}
    )
    assert torch.equal(again.weights, trained.weights)


def test_without_patience_all_epochs_run_and_nothing_is_judged(rows):
    folds = (torch.arange(90) % 3).tolist()
    trained = train_members((4,), rows, folds=folds, patience=None, **SMALL)
    assert trained.history[0]["validation_loss"] == [None] * 3
    held_out = train_members((4,), rows, rows, patience=None, **SMALL)
    assert held_out.history[0]["validation_loss"] == [None] * 3


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_every_task_sampling_and_weights_of_zero(rows, task):
    x, y = rows
    y = torch.stack([y, 1 - y], 1) if task == "multilabel" else y
    w = (torch.arange(90) % 5 > 0).double()
    folds = torch.arange(90) % 3
    given = {"task": task, "members": [Member(0), Member(1)], **SMALL}
    given |= {} if task == "multilabel" else {"sampling": "stratified"}
    weighted = train_members((4,), (x, y, w), folds=folds.tolist(), **given)
    some = w > 0
    fewer = train_members((4,), (x[some], y[some], w[some]), folds=folds[some].tolist(), **given)
    assert torch.equal(weighted.weights, fewer.weights)


def test_a_run_over_folds_resumes_to_the_same_bits(rows, tmp_path):
    folds = (torch.arange(90) % 3).tolist()
    given = {"members": [Member(s) for s in range(3)], "folds": folds, **SMALL}
    whole = train_members((4,), rows, **given)
    first = {**given, "checkpoint": tmp_path / "run", "checkpoint_seconds": 0.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack_module.Loop, "leave", _die_after(stack_module.Loop.leave, 2))
        with pytest.raises(KeyboardInterrupt):
            train_members((4,), rows, **first)
    assert torch.equal(train_members((4,), rows, **first).weights, whole.weights)
    with pytest.raises(ValueError, match="other"):
        train_members((4,), rows, **{**first, "folds": folds[::-1]})


def _die_after(leave, epochs):
    def dying(self, stay, outcome):
        if self.epoch_number == epochs:
            raise KeyboardInterrupt
        return leave(self, stay, outcome)

    return dying


@pytest.mark.parametrize("folds", [[0] * 90, [0, 1], [0, 2] * 45, [-1] * 90, [[0, 1]] * 45])
def test_folds_that_are_none_are_refused(rows, folds):
    with pytest.raises(ValueError, match="folds must hold a fold from 0 for each of 90 rows"):
        train_members((4,), rows, folds=folds, **SMALL)


def test_folds_take_the_place_of_validation(rows):
    for other in ({"validation": rows}, {"shared_order": 0}):
        with pytest.raises(ValueError, match="folds take the place of validation"):
            train_members((4,), rows, folds=[0, 1] * 45, **other, **SMALL)
