from __future__ import annotations

import numpy as np
import pytest
import torch

import softset as ss


@pytest.fixture
def streets(tmp_path):
    """Made-up scenes: the class of a pixel shows in its color."""
    rng = np.random.default_rng(0)
    colors = rng.integers(0, 255, (12, 3))
    arrays = {}
    for name in ("train", "val", "test"):
        y = np.kron(rng.integers(0, 12, (9, 6, 8)), np.ones((1, 20, 20), dtype=int))
        noise = rng.normal(0, 10, (*y.shape, 3))
        arrays[f"{name}_x"] = np.clip(colors[y] + noise, 0, 255).astype(np.uint8)
        arrays[f"{name}_y"] = y.astype(np.uint8)
    np.savez(tmp_path / "camvid_120x160.npz", **arrays)
    return tmp_path


def test_it_runs(streets, capsys):
    import segmentation  # noqa: PLC0415

    argv = ["--data", str(streets), "--quick", "--losses", "cross-entropy",
            "cross-entropy + soft mIoU, per image"]  # fmt: skip
    segmentation.main(argv)
    said = capsys.readouterr().out
    assert "CamVid at 30 x 40, 1 epochs" in said
    assert said.count("| cross-entropy + soft mIoU, per image |") == 2


def test_images_and_labels_stay_together(streets):
    import segmentation  # noqa: PLC0415

    train, val, _ = segmentation.load(streets, 60)
    assert train.x.shape == (9, 3, 60, 80)
    assert val.y.shape == (9, 60, 80)

    # The mean color of a class is the same in a mirrored batch.
    def colors(x, y):
        return torch.stack([x.movedim(1, -1)[y == k].mean(0) for k in range(12)])

    x, y = (torch.cat(part) for part in zip(*segmentation.Batches(train, 0), strict=True))
    torch.testing.assert_close(colors(x, y), colors(*train), rtol=1e-3, atol=1e-3)
    assert len(segmentation.Batches(train, 0)) == 2


def test_a_network_learns_the_colours(streets):
    import segmentation  # noqa: PLC0415

    train, val, _ = segmentation.load(streets, 30)
    loss = segmentation.losses(torch.ones(11) / 11)["cross-entropy + soft mIoU"]
    torch.set_num_threads(1)
    model = segmentation.train(loss, train, 0, 40)
    z = segmentation.scores(model, val)
    assert z.shape == (9, 11, 30, 40)
    assert ss.evaluate(z, val.y, "miou", **segmentation.SETTINGS) > 0.2


def test_every_loss_has_a_gradient():
    import segmentation  # noqa: PLC0415

    z = torch.randn(2, 11, 6, 8, requires_grad=True)
    y = torch.randint(0, 12, (2, 6, 8))
    for loss in segmentation.losses(torch.ones(11) / 11).values():
        (slope,) = torch.autograd.grad(loss(z, y), z)
        assert slope.isfinite().all()
        assert slope.abs().sum() > 0
