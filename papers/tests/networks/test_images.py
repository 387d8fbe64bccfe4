"""Networks on images: how they are trained, on which batches, for which loss."""

from __future__ import annotations

import itertools

import pytest
import torch

import softset as ss
from softset_papers.networks import images
from softset_papers.networks.images import (
    Batches,
    ImageParts,
    Some,
    crop_and_mirror,
    prepare_images,
    recipe_for,
    train_image_network,
)
from tests.datasets.made_up import small_images


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(images, "load_images", lambda name, data_dir: small_images(name))
    images.all_images.cache_clear()


def bright_and_dark(n: int, classes: int, seed: int) -> Some:
    """Images whose brightness is their class."""
    torch.manual_seed(seed)
    y = torch.arange(n) % classes
    x = torch.randn(n, 3, 16, 16) * 0.3 + (y - (classes - 1) / 2)[:, None, None, None]
    return Some(x, y)


def parts(classes: int) -> ImageParts:
    names = tuple("abcdefgh"[:classes])
    return ImageParts(*(bright_and_dark(n, classes, n) for n in (120, 60, 61)), names)


@pytest.mark.parametrize(("loss", "classes"), [("f1", 2), ("mcc", 3), ("cross-entropy", 3)])
def test_a_network_learns_what_is_easy(loss, classes):
    easy = parts(classes)
    options = {
        "network": "tiny-darknet",
        "width": 0.25,
        "loss": loss,
        "learning_rate": 3e-3,
        "batch_size": 30,
        "max_epochs": 12,
        "patience": 12,
    }
    model, history = train_image_network(easy, options, 0)
    task = "binary" if classes == 2 else "multiclass"
    scores = images.scores_of(model, easy.test.x)
    assert ss.evaluate(scores, easy.test.y, "f1", task=task, from_logits=True) > 0.9
    assert len(history["loss"]) <= 12
    again, _ = train_image_network(easy, options, 0)
    torch.testing.assert_close(images.scores_of(again, easy.test.x), scores)


def test_every_crop_is_a_window_of_the_padded_image_or_its_mirror():
    x = torch.arange(6 * 2 * 5 * 4.0).reshape(6, 2, 5, 4) + 1
    moved = crop_and_mirror(x, torch.Generator().manual_seed(0), pad=2)
    padded = torch.nn.functional.pad(x, (2,) * 4)
    mirrored = 0
    for image, wide in zip(moved, padded, strict=True):
        windows = [
            (flip, wide[:, i : i + 5, j : j + 4])
            for i, j, flip in itertools.product(range(5), range(5), (False, True))
        ]
        hits = [flip for flip, w in windows if torch.equal(image, w.flip(2) if flip else w)]
        assert hits
        mirrored += all(hits)
    assert 0 < mirrored < 6
    many = crop_and_mirror(x[:1].expand(2000, -1, -1, -1), torch.Generator().manual_seed(1), 2)
    assert len(many.flatten(1).unique(dim=0)) == 50  # all of 5 x 5 places, both ways round


def test_batches_hold_every_row_once_and_change_with_the_epoch():
    part = Some(torch.arange(11.0)[:, None], torch.arange(11))
    batches = Batches(part, 5, seed=3)
    first, second = list(batches), list(batches)
    assert [len(y) for _, y in first] == [5, 5]  # the last row alone is left out
    seen = torch.cat([y for _, y in first]).tolist()
    assert len(set(seen)) == 10
    assert seen != torch.cat([y for _, y in second]).tolist()
    assert all(torch.equal(x[:, 0].long(), y) for x, y in first)


@pytest.mark.parametrize(("how", "shape"), [("channel", (1, 28, 28)), ("pixel", (3, 32, 32))])
def test_images_are_normalised_by_the_training_part_alone(how, shape, small):
    found = prepare_images("fashion-mnist-tshirt", "90/10", 0, None, normalize=how)
    assert found.train.x.shape[1:] == shape
    mean = found.train.x.mean((0, 2, 3) if how == "channel" else 0)
    torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-5, rtol=0)
    if how == "channel":
        assert found.train.x.std() == pytest.approx(1, abs=1e-3)
    else:
        assert torch.equal(found.train.x[:, 0], found.train.x[:, 2])
    assert found.test.x.mean().abs() > 1e-6  # its own mean is not used


def test_recipes_take_what_they_need_from_the_training_targets():
    y, two = torch.tensor([0, 0, 0, 1]), ("rest", "one")
    surrogate = recipe_for({"loss": "surrogate", "beta": 2.0}, y, two)
    assert (surrogate.prevalence.item(), surrogate.beta) == (0.25, 2.0)
    mae = recipe_for({"loss": "mae", "balanced": True}, y, two)
    assert mae.class_weight.tolist() == pytest.approx([4 / 3, 4])
