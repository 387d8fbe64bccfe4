"""Rows on images and graphs: every table end to end with tiny settings, and the parts of a run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, precision_score, recall_score

import softset as ss
from softset_papers import images
from softset_papers.curves import _ranks, correlation, draw_all, draw_curves, draw_scatter
from softset_papers.datasets.images import CIFAR_CLASSES, FASHION_CLASSES, TRANSPORT, ImageSet
from softset_papers.images import (
    Batches,
    ClassDiceLoss,
    ImageParts,
    Some,
    crop_and_mirror,
    judge_classes,
    make_recipe,
    prepare_images,
    train_image_network,
)
from softset_papers.runner import Effort, run_table
from softset_papers.specification import all_tables
from softset_papers.summary import read_records, summarise

TABLES = {n: t for n, t in all_tables().items() if t.kind in ("images", "graphs", "curves")}


def small_set(name: str) -> ImageSet:
    """Random images, 12 of each class."""
    classes = ("ak47", "dog", "frog") if name == "caltech-256" else CIFAR_CLASSES
    shape = (3, 32, 32)
    if name.startswith("fashion"):
        classes, shape = FASHION_CLASSES, (1, 28, 28)
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(len(classes)), 12)
    x = rng.integers(0, 256, (len(y), *shape), np.uint8)
    whole = ImageSet(name, x, y, classes, np.arange(len(y)) % 4 == 0)
    positive = {
        "cifar-10-transportation": TRANSPORT,
        "cifar-10-frog": ("frog",),
        "cifar-10-airplane": ("airplane",),
        "fashion-mnist-tshirt": ("t-shirt",),
    }
    return whole.against_rest(name, positive[name]) if name in positive else whole


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(images, "_images", lambda name, data_dir: small_set(name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """CocktailParty with 40 frames, and a place for results that the tables share."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    frame, person = np.divmod(np.arange(240), 6)
    table = {
        "frame": frame,
        "timestamp": frame * 1000,
        "person_id": person,
        "x": rng.uniform(0, 500, 240),
        "y": rng.uniform(0, 600, 240),
        "theta": rng.uniform(-3, 3, 240),
        "group": rng.integers(-1, 2, 240),
    }
    pandas.DataFrame(table).to_parquet(path / "cocktailparty.parquet")
    return path


@pytest.mark.parametrize("name", TABLES)
def test_every_table_runs_from_end_to_end(name, small, folder):
    table = TABLES[name]
    effort = Effort(trials=1, max_epochs=1, rows=100)
    records = run_table(table, folder / "results", data_dir=folder, effort=effort)
    assert [r["error"] for r in records if "error" in r] == []
    assert len(records) == len(table.blocks) * len(table.rows)
    summary = summarise(table, read_records(folder / "results"), "published")
    for block, row, metric in itertools.product(table.blocks, table.rows, table.metrics):
        cell = summary.cells[block.key][row.id][metric]
        assert cell.measured is not None
        low = -1 if "correlation" in metric or metric == "mcc" else 0
        assert low <= cell.measured.mean <= 1
        assert (cell.published is None) == (table.kind == "curves" or row.extra)


def test_full_settings_are_the_papers(small, tmp_path):
    for name, table in TABLES.items():
        for row in table.rows:
            full = {**row.options, **row.full}
            if table.kind == "graphs" or row.fit != "network":
                assert not row.full  # these are run in full
                continue
            assert full["images"] is None, name
            assert full["width"] == 1.0
            assert full["max_epochs"] >= 120
    curves = TABLES["004-figures-2-to-4"].rows[0]
    full = {**curves.options, **curves.full}
    assert (full["learning_rate"], full["momentum"], full["weight_decay"]) == (0.01, 0.9, 1e-4)
    assert (full["batch_size"], full["max_epochs"], full["augment"]) == (100, 120, True)
    first = {**TABLES["000-table-2"].rows[0].options, **TABLES["000-table-2"].rows[0].full}
    assert (first["learning_rate"], first["batch_size"], first["split"]) == (1e-4, 128, "67/17/17")


# --- the parts of a run -------------------------------------------------------------------------


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
    model, epochs = train_image_network(easy, options, 0)
    task = "binary" if classes == 2 else "multiclass"
    scores = images.scores_of(model, easy.test.x)
    assert ss.evaluate(scores, easy.test.y, "f1", task=task) > 0.9
    assert epochs <= 12
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
    found = prepare_images("fashion-mnist-tshirt", "90/10", 0, None, normalise=how)
    assert found.train.x.shape[1:] == shape
    mean = found.train.x.mean((0, 2, 3) if how == "channel" else 0)
    torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-5, rtol=0)
    if how == "channel":
        assert found.train.x.std() == pytest.approx(1, abs=1e-3)
    else:
        assert torch.equal(found.train.x[:, 0], found.train.x[:, 2])
    assert found.test.x.mean().abs() > 1e-6  # its own mean is not used


def test_dice_of_several_classes_is_its_formula():
    torch.manual_seed(0)
    scores, y = torch.randn(7, 4), torch.tensor([0, 1, 1, 0, 3, 3, 3])
    p = scores.softmax(-1).numpy()
    values = [
        2 * p[y == k, k].sum() / ((p[:, k] ** 2).sum() + (y == k).sum().item()) for k in (0, 1, 3)
    ]
    assert ClassDiceLoss()(scores, y).item() == pytest.approx(1 - np.mean(values), abs=1e-6)


def test_recipes_take_what_they_need_from_the_training_targets():
    y, two = torch.tensor([0, 0, 0, 1]), ("rest", "one")
    surrogate = make_recipe({"loss": "surrogate", "beta": 2.0}, y, two)
    assert (surrogate.prevalence.item(), surrogate.beta) == (0.25, 2.0)
    mae = make_recipe({"loss": "mae", "balanced": True}, y, two)
    assert mae.class_weight.tolist() == pytest.approx([4 / 3, 4])
    soft = make_recipe({"loss": "identity", "beta": 3.0}, y, two)
    z = torch.tensor([-1.0, 0.5, 0.0, 1.0])
    p = torch.sigmoid(z)
    expected = 1 - 10 * p[3] / (10 * p[3] + 9 * (1 - p[3]) + p[:3].sum())  # paper 004 eq. 24
    assert soft(z, y).item() == pytest.approx(expected.item(), abs=1e-6)
    (phase,) = make_recipe(
        {"loss": "fbeta", "beta": {"dog": 5}, "anneal": 0.9}, y, ("cat", "dog", "frog")
    )
    assert phase.loss.metric.beta == (1.0, 5.0, 1.0)
    assert phase.cooling == {"rate": 0.9}
    with pytest.raises(ValueError, match="loss must be one of"):
        make_recipe({"loss": "f3"}, y, two)


def test_classes_are_judged_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    names = ("cat", "dog", "frog")
    y = torch.from_numpy(rng.integers(0, 3, 60))
    scores = torch.from_numpy(rng.normal(size=(60, 3))) + torch.eye(3)[y]
    part = Some(torch.zeros(60, 1), y)
    values = judge_classes([scores], [scores], ImageParts(part, part, part, names))["fair"]
    said = scores.argmax(1)
    assert values["f1"][0] == pytest.approx(f1_score(y, said, average="macro"), abs=1e-5)
    for index, name in ((1, "dog"), (2, "frog")):
        one = {"labels": [index], "average": "macro"}
        assert values[f"precision {name}"][0] == pytest.approx(
            precision_score(y, said, **one), abs=1e-5
        )
        assert values[f"recall {name}"][0] == pytest.approx(recall_score(y, said, **one), abs=1e-5)
    assert values["f1 tuned"][0] >= values["f1"][0]  # tuned on the same rows here


# --- curves -------------------------------------------------------------------------------------


def test_correlations_are_scipys():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 20).astype(float).tolist(), rng.normal(size=20).tolist()
    assert correlation(a, b) == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-4)
    ranks = correlation(_ranks(a), _ranks(b))
    assert ranks == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-4)
    assert correlation([1.0, 1.0], [0.0, 1.0]) == 0


def test_figures_have_a_line_and_a_panel_for_each_row():
    pytest.importorskip("matplotlib")
    names = ("loss", "score", "f1 train", "f1 validation", "accuracy test")
    curves = [{name: [0.1, 0.4, 0.3] for name in names}]
    records = {
        label: {"curves": curves, "values": {"fair": {"correlation": [-0.5]}}}
        for label in ("one", "two")
    }
    lines, scatter = draw_curves(records), draw_scatter(records)
    assert lines.count("<svg") == scatter.count("<svg") == 1
    assert scatter.count("r = −0.50") + scatter.count("r = -0.50") == 2
    assert draw_scatter(records) == scatter  # the same every time
    named = {"surrogate, β = 1": records["one"], "MAE": records["two"]}
    assert [figure.count("r = ") for figure in draw_all(named)] == [0, 1]
