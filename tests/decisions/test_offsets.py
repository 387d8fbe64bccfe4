"""Offsets of many classes: the fast path for averages over classes equals the general one."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

import softset as ss
from softset.decisions import offsets as module


def problem(rows, classes, weighted):
    g = torch.Generator().manual_seed(rows)
    z = torch.randn(rows, classes, generator=g, dtype=torch.float64)
    y = torch.randint(0, classes, (rows,), generator=g)
    y[:classes] = torch.arange(classes)
    z[torch.arange(rows), y] += 1
    return z, y, torch.rand(rows, generator=g, dtype=torch.float64) if weighted else None


@pytest.mark.parametrize("metric", ["f1", "recall", "jaccard", "f2", "f1_weighted", "gmean"])
@pytest.mark.parametrize(("rows", "classes", "weighted"), [(60, 3, False), (90, 7, True)])
def test_averages_are_tuned_class_by_class_to_the_same_offsets(metric, rows, classes, weighted):
    z, y, w = problem(rows, classes, weighted)
    quick = ss.best_offsets(z, y, metric, sample_weight=w, from_logits=True)
    with patch.object(module, "_each_class", lambda *_: None):
        general = ss.best_offsets(z, y, metric, sample_weight=w, from_logits=True)
    assert quick == pytest.approx(general, abs=1e-9)


def test_the_work_for_an_average_does_not_grow_with_rows_times_classes():
    z, y, _ = problem(400, 40, False)
    counted = []

    def count(*sums):
        counted.append(sums[0].numel())
        return from_sums(*sums)

    from_sums = module.Confusion.from_sums
    with patch.object(module.Confusion, "from_sums", count), patch.object(module, "MAX_PASSES", 1):
        ss.best_offsets(z, y, "f1", from_logits=True)
    assert sum(counted) < 40 * 3 * (400 + 40)


def test_classes_without_rows_take_the_general_way():
    z, y, _ = problem(60, 4, False)
    z = torch.cat([z, z[:, :1] - 1], 1)  # a class that no row has
    offsets = ss.best_offsets(z, y, "f1", from_logits=True)
    plain = ss.evaluate(z, y, "f1", task="multiclass", from_logits=True)
    tuned = ss.evaluate(z, y, "f1", task="multiclass", offsets=offsets, from_logits=True)
    assert tuned >= plain
