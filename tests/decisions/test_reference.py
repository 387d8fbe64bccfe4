"""Quantiles of scores that stay with a model."""

import numpy as np
import pytest
import torch

from softset.decisions.reference import Reference
from softset.storage.files import SavedFileError
from softset.tasks import BINARY, MULTICLASS, MULTILABEL


def scores_of(task, n=4000, seed=0):
    random = np.random.default_rng(seed)
    if task.exclusive:
        y = random.integers(0, 3, n)
        z = random.normal(size=(n, 3)) + 2 * np.eye(3)[y]
        return z, y
    shape = (n, 2) if task.independent else (n,)
    y = (random.random(shape) < 0.1).astype(int)
    return random.normal(size=shape) + 2 * y, y


@pytest.mark.parametrize("task", [BINARY, MULTICLASS, MULTILABEL])
def test_a_file_gives_back_what_it_got(task):
    found = Reference.of(task, *scores_of(task))
    classes = 3 if task.exclusive else 2
    again = Reference.unpacked(task, classes, found.packed())
    for name, values in found.packed().items():
        assert torch.equal(values, again.packed()[name])


def test_two_classes_take_less_than_twenty_kilobytes_and_hold_the_distribution():
    z, y = scores_of(BINARY, 100_000)
    found = Reference.of(BINARY, z, y)
    assert sum(t.numel() * t.element_size() for t in found.packed().values()) < 20_000
    for cut in (0.0, 1.5, 3.0):
        true = [(z[y == k] >= cut).mean() for k in (0, 1)]
        assert np.abs(found.fraction_above(0, cut) - true).max() <= 1e-3
    _, t, w = found.tuning_rows(0, np.array([0.7, 0.3]))
    assert (t == 1).sum() == (y == 1).sum()
    assert np.isclose(w[t == 1].sum() / w.sum(), 0.3)


def test_class_weights_are_not_the_prevalence():
    z, y = scores_of(BINARY)
    weighted = Reference.of(BINARY, z, y, np.where(y == 1, 9.0, 1.0), np.ones(len(y)))
    assert np.isclose(weighted.prior[0, 1], y.mean())
    _, t, w = weighted.tuning_rows(0)
    odds = w[t == 1].sum() / w[t == 0].sum()
    assert np.isclose(odds, 9 * y.mean() / (1 - y.mean()))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("points", lambda t: t.flip(0)),
        ("points", lambda t: t[:-1]),
        ("points", lambda t: t.float()),
        ("prior", lambda t: t * 2),
        ("rows", lambda t: -t),
        ("sizes", lambda t: t + 1),
        ("factor", lambda t: t / 0),
    ],
)
def test_malformed_files_are_refused(name, change):
    packed = Reference.of(BINARY, *scores_of(BINARY, 200)).packed()
    with pytest.raises(SavedFileError, match="reference"):
        Reference.unpacked(BINARY, 2, {**packed, name: change(packed[name])})
