"""Phases: what they refuse, and what they are called."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import softset as ss
from softset.tasks import BINARY
from softset.training.phases import Phase, make_phases
from softset.training.recipes import RECIPES


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_name_gives_phases_for_the_metric_and_the_task(recipe):
    for phase in make_phases(recipe, "mcc", BINARY, class_weight=[1.0, 3.0]):
        assert phase.loss.task == "binary"
        assert phase.loss.class_weight.tolist() == [1.0, 3.0]
        if isinstance(phase.loss, ss.MetricLoss):
            assert phase.loss.goal.metric == ss.MCC()


def test_a_loss_and_phases_are_taken_as_they_are():
    loss = nn.BCEWithLogitsLoss()
    assert make_phases(loss, "f1", BINARY) == [Phase(loss)]
    given = (Phase(loss), Phase(loss, 0.5))
    assert make_phases(given, "f1", BINARY) == list(given)


def test_names_say_what_a_phase_trains_for():
    def my_loss(scores, target):
        return scores.sum()

    losses = [ss.MetricLoss(), ss.CrossEntropyLoss(), ss.FocalLoss(), nn.MSELoss(), my_loss]
    named = ["soft metric", "cross-entropy", "FocalLoss", "MSELoss", "my_loss"]
    assert [Phase(loss).name for loss in losses] == named


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 0}, "rate must be in"),
        ({"rate": float("inf")}, "rate must be in"),
        ({"cooling": {"rate": 1.0}}, "rate must be in"),
        ({"cooling": {"start": 0.4}}, "start must be in"),
        ({"cooling": {"speed": 1}}, "cooling must be arguments of Annealing by name"),
        ({"cooling": 0.9}, "cooling must be arguments of Annealing by name"),
        ({"loss": ss.CrossEntropyLoss(), "cooling": {}}, "cooling needs a MetricLoss"),
        ({"loss": ss.MetricLoss(step=ss.SigmoidStep()), "cooling": {}}, "linear step"),
    ],
)
def test_mistakes_are_found_where_they_are_made(settings, message):
    with pytest.raises(ValueError, match=message):
        Phase(**{"loss": ss.MetricLoss()} | settings)


@pytest.mark.parametrize("recipe", [[], [ss.CrossEntropyLoss()], 3, None])
def test_what_is_no_recipe_is_refused(recipe):
    with pytest.raises(ValueError, match="recipe must"):
        make_phases(recipe, "f1", BINARY)


def test_losses_of_recipes_know_that_networks_give_logits():
    """Else scores that happen to lie in [0, 1] at the start are warned of."""
    (phase,) = make_phases("metric", "f1", BINARY)
    loss = phase.loss(torch.full((64,), 0.5), torch.arange(64) % 2)
    assert torch.isfinite(loss)
