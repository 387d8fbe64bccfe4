from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from softset.checks import check_choice, check_number, check_whole, nearest
from softset.counting.numerics import ratio, root


def test_ratio_has_a_finite_gradient_where_the_denominator_is_zero():
    num = torch.tensor([1.0, 0.0, 3.0], requires_grad=True)
    den = torch.tensor([2.0, 0.0, 0.0], requires_grad=True)
    value = ratio(num, den, empty=0.25)
    assert value.tolist() == [0.5, 0.25, 0.25]
    value.sum().backward()
    assert num.grad.tolist() == [0.5, 0, 0]
    assert den.grad.tolist() == [-0.25, 0, 0]


@pytest.mark.parametrize("degree", [2, 3, 50])
def test_root_is_exact_and_its_slope_finite(degree):
    x = torch.tensor([0.0, 1e-12, 0.3, 1.0], dtype=torch.float64, requires_grad=True)
    y = root(x, degree)
    torch.testing.assert_close(y.detach(), x.detach() ** (1 / degree), rtol=1e-14, atol=0)
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert root(torch.tensor(-1e-17)).item() == 0  # a rate may be rounded below zero


def test_checks_name_the_parameter_and_what_came():
    check_number("beta", 1, 0, 2)
    check_number("beta", 0, 0, 2, closed="low")
    for bad in (0, 2, -1, float("nan"), "a", None, True, torch.tensor([1.0, 3.0])):
        with pytest.raises(ValueError, match=r"beta must be .* in \(0, 2\), got|beta must be in"):
            check_number("beta", bad, 0, 2)
    with pytest.raises(
        ValueError, match=r"task must be one of 'binary', 'b', got 'binry'.*'binary'"
    ):
        check_choice("task", "binry", ("binary", "b"))
    assert nearest("zzz", ["f1"]) == ""


@pytest.mark.parametrize("value", [0, -1, 1.5, 11, math.inf, math.nan, 10**400, True, "3", None])
def test_what_is_no_whole_number_in_range_is_refused(value):
    with pytest.raises(ValueError, match=r"^n must be a whole number from 1 to 10, got "):
        check_whole("n", value, 1, 10)


def test_whole_numbers_of_any_type_pass():
    for value in (1, 10, 3.0, np.int64(4), np.float32(5)):
        check_whole("n", value, 1, 10)
    check_whole("n", 2**63 - 1, 0)


def test_numbers_beyond_floats_are_refused_in_words():
    with pytest.raises(ValueError, match=r"x must be a number in \(0, inf\)"):
        check_number("x", 10**400, 0, math.inf)
