"""Pins: the same for the same loss, another one for another, and for what once was wrong."""

import math
import subprocess

import pytest
import torch

from softset_papers import provenance
from softset_papers.baselines.adversarial import is_installed
from softset_papers.networks import losses
from softset_papers.provenance import current_commit, moved, pin
from softset_papers.runner import Effort, plan
from softset_papers.tables import all_tables, find_table

TRAINS = ("train", "images", "graphs", "curves", "runtime")


@pytest.fixture(autouse=True)
def fresh():
    provenance._pin.cache_clear()
    yield
    provenance._pin.cache_clear()


def first_run(name, row):
    return plan(find_table(name), Effort(), [row])[0].run


def test_every_loss_of_every_table_has_a_finite_pin():
    for table in all_tables().values():
        if table.kind not in TRAINS:
            continue
        for planned in plan(table, Effort(), [row.id for row in table.rows]):
            found, options = pin(planned.run), planned.run["options"]
            none = "loss" not in options or (
                options["loss"] == "adversarial" and not is_installed()
            )
            assert (found is None) == none
            assert all(map(math.isfinite, found or [])), (table.id, planned.row.id)


def test_pins_tell_losses_steps_and_weights_apart():
    table = find_table("000-table-1")
    pins = [pin(plan(table, Effort(), [r], ["mammography"])[0].run) for r in ("f1", "accuracy")]
    assert moved(*pins)
    linear, sigmoid = (first_run(name, "f1") for name in ("000-table-1", "000-table-4"))
    assert moved(pin(linear), pin(sigmoid))
    plain, weighted = first_run("000-table-1", "bce"), first_run("000-table-9", "bce")
    assert moved(pin(plain), pin(weighted))


def test_the_old_dice_is_seen(monkeypatch):
    """Its slopes were not numbers for a batch whose counts are next to nothing, in float32."""
    run = first_run("000-table-7", "dice")
    now = pin(run)
    provenance._pin.cache_clear()

    class OldDice(torch.nn.Module):
        def forward(self, scores, target, weight=1.0):
            p = torch.sigmoid(scores)
            top, bottom = (weight * p * target).sum(), (weight * (p * p + target)).sum()
            return 1 - torch.where(bottom > 0, 2 * top / bottom, 0.0)

    monkeypatch.setattr(losses, "DiceLoss", OldDice)
    assert moved(now, pin(run))


def test_a_pin_that_is_not_known_does_not_count():
    assert not moved(None, [1.0])
    assert not moved([1.0], None)
    assert moved([1.0], [1.0, 2.0])
    assert moved([math.nan], [0.0])


def test_the_commit_of_this_repository():
    here = provenance.Path(provenance.__file__).parent
    found = subprocess.run(
        ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip("not in a repository")
    assert found.stdout.startswith(current_commit().rstrip("+"))


def test_outside_a_repository_there_is_no_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "x" / "provenance.py"))
    assert current_commit() == ""
