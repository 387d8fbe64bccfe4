from __future__ import annotations

import math

import pytest
import torch

import softset as ss


def test_bound_by_hand():
    assert ss.losses.confusion_error_bound(500, classes=10, delta=0.1) == pytest.approx(
        math.sqrt(math.log(2000) / 1000)
    )


@pytest.mark.parametrize("error", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("classes", [2, 10])
def test_batch_size_is_the_smallest_that_keeps_the_bound(error, classes):
    n = ss.losses.batch_size_for(error, classes)
    assert (
        ss.losses.confusion_error_bound(n, classes)
        <= error
        < ss.losses.confusion_error_bound(n - 1, classes)
    )


def test_prevalence_makes_the_error_relative_to_the_rare_class():
    assert ss.losses.batch_size_for(0.5, prevalence=0.1) == ss.losses.batch_size_for(0.05)


def test_the_bound_holds_in_simulation():
    n, cells = 200, torch.tensor([0.4, 0.1, 0.2, 0.3])
    bound = ss.losses.confusion_error_bound(n, classes=2, delta=0.05)
    draws = torch.distributions.Multinomial(n, cells)
    torch.manual_seed(0)
    worst = (draws.sample((2000,)) / n - cells).abs().amax(1)
    assert (worst > bound).float().mean() <= 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ss.losses.confusion_error_bound(0), "n must be in"),
        (lambda: ss.losses.confusion_error_bound(10, classes=1), "classes must be in"),
        (lambda: ss.losses.confusion_error_bound(10, delta=1.0), "delta must be in"),
        (lambda: ss.losses.batch_size_for(0), "error must be in"),
        (lambda: ss.losses.batch_size_for(0.1, prevalence=0), "prevalence must be in"),
        (lambda: ss.losses.batch_size_for(1e-200), "error must be at least"),
        (lambda: ss.losses.batch_size_for(1e-60, prevalence=1e-60), "error must be at least"),
        (lambda: ss.losses.confusion_error_bound(10**400), "n must be"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_any_number_of_classes_has_a_batch_size():
    assert ss.losses.batch_size_for(0.5, classes=10**200) == math.ceil(
        2 * (math.log(40) + 400 * math.log(10))
    )
