"""Shapes, parameter counts and the symmetry that each network promises."""

from __future__ import annotations

import itertools

import pytest
import torch

from softset_papers.networks.architectures import (
    Darknet19,
    PairNetwork,
    ResNet,
    TinyDarknet,
    parameter_count,
)

# ResNet-18 and -34 with a 3 x 3 stem and ten outputs are known to have 11.17 and 21.28 million.
# Tiny Darknet is a file of 4 MB, Darknet-19 one of 83 MB, in float32 and with 1000 outputs.
NETWORKS = [
    (lambda: ResNet(18, 10), 10, 11_173_962),
    (lambda: ResNet(34, 10), 10, 21_282_122),
    (lambda: TinyDarknet(1000), 1000, 1_042_104),
    (lambda: Darknet19(1000), 1000, 20_842_376),
]


@pytest.mark.parametrize(("make", "outputs", "count"), NETWORKS)
def test_shape_and_number_of_parameters(make, outputs, count):
    network = make().eval()
    with torch.no_grad():
        assert network(torch.zeros(1, 3, 32, 32)).shape == (1, outputs)
    assert parameter_count(network) == count


@pytest.mark.parametrize("make", [TinyDarknet, Darknet19, lambda **k: ResNet(18, **k)])
def test_width_makes_it_smaller_and_everything_is_trained(make):
    network = make(outputs=3, channels=1, width=0.1)
    assert parameter_count(network) < parameter_count(make(outputs=3, channels=1)) / 50
    network(torch.randn(4, 1, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_pairs_do_not_depend_on_the_order_of_the_people():
    torch.manual_seed(0)
    network = PairNetwork().eval()
    people = torch.randn(3, 6, 4)
    order = torch.randperm(6)
    pairs = list(itertools.combinations(range(6), 2))
    with torch.no_grad():
        before, after = network(people), network(people[:, order])
    for column, (i, j) in enumerate(pairs):
        origin = pairs.index(tuple(sorted((order[i].item(), order[j].item()))))
        torch.testing.assert_close(after[:, column], before[:, origin])


def test_every_person_can_change_the_answer_about_every_pair():
    torch.manual_seed(0)
    network = PairNetwork()
    people = torch.randn(1, 6, 4, requires_grad=True)
    for column in range(15):
        (slope,) = torch.autograd.grad(network(people)[0, column], people)
        assert (slope[0].abs().sum(1) > 0).all()


def test_people_in_one_place_have_a_finite_gradient():
    people = torch.zeros(1, 6, 4, requires_grad=True)
    PairNetwork()(people).sum().backward()
    assert people.grad.isfinite().all()


def test_unknown_depth_is_refused():
    with pytest.raises(ValueError, match="18 or 34"):
        ResNet(50)
