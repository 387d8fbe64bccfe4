"""Street scenes, pixel by pixel: is a loss for mean IoU better than cross-entropy?

A small U-Net on CamVid, trained with what people train with.

    python examples/segmentation.py --data FOLDER                 # 60 x 80, 12 epochs, 3 seeds
    python examples/segmentation.py --data FOLDER --epochs 36     # longer
    python examples/segmentation.py --data FOLDER --full          # 120 x 160, 36 epochs; hours

``FOLDER`` holds ``camvid_120x160.npz``: ``train_x`` uint8 ``(N, 120, 160, 3)``, ``train_y``
``(N, 120, 160)`` with classes 0 to 10 and 11 for void, likewise ``val_*`` and ``test_*``.

Every network has the same weights to start from, the same batches and the same learning rates;
the loss is the only thing that differs. Judged are the weights of the last epoch, on the test
images: mean IoU of the most probable class, and with offsets of the classes that are tuned on the
validation images. ``FOLDER`` may be given as ``SOFTSET_DATA`` with ``camvid`` in it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

import runs
import softset as ss

CLASSES, VOID = 11, 11
NAMES = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car",
         "pedestrian", "bicyclist")  # fmt: skip
BATCH, RATE = 8, 3e-3
# Pixels of validation that offsets are tuned on.
TUNED_ON = 40_000
SETTINGS = {"task": "multiclass", "ignore_index": VOID}


def losses(shares: Tensor) -> dict[str, nn.Module]:
    """By name; ``shares`` are those of the classes in the training pixels."""
    cross_entropy = ss.CrossEntropyLoss(**SETTINGS)
    miou = ss.MetricLoss("miou", **SETTINGS)
    return {
        "cross-entropy": cross_entropy,
        "class-weighted": ss.CrossEntropyLoss(class_weight=shares.median() / shares, **SETTINGS),
        "logit-adjusted": ss.LogitAdjustedLoss(shares, ignore_index=VOID),
        "Lovász": ss.LovaszLoss(**SETTINGS),
        "soft mIoU": miou,
        "cross-entropy + Dice": cross_entropy
        + ss.MetricLoss("dice", step=ss.IdentityStep(), **SETTINGS),
        "cross-entropy + soft mIoU": cross_entropy + miou,
        "cross-entropy + soft mIoU, per image": cross_entropy
        + ss.MetricLoss("miou", per="image", **SETTINGS),
    }


class Images(NamedTuple):
    """``x`` in float, ``(N, 3, H, W)``; ``y`` class numbers, ``(N, H, W)``."""

    x: Tensor
    y: Tensor


def load(folder, size):
    """Training, validation and test images of a height of ``size``, 60 or 120."""
    with np.load(folder / "camvid_120x160.npz") as data:
        parts = [(data[f"{name}_x"], data[f"{name}_y"]) for name in ("train", "val", "test")]
    by = parts[0][0].shape[1] // size
    mean, spread = (getattr(parts[0][0] / 255, how)((0, 1, 2)) for how in ("mean", "std"))
    found = []
    for x, y in parts:
        x = torch.from_numpy(((x / 255 - mean) / spread).astype(np.float32)).movedim(-1, 1)
        x = F.avg_pool2d(x, by).contiguous(memory_format=torch.channels_last)
        found.append(Images(x, torch.from_numpy(y[:, by // 2 :: by, by // 2 :: by]).long()))
    return found


class Batches:
    """Shuffled training batches, half of the images mirrored."""

    def __init__(self, images, seed):
        self.images, self.random = images, torch.Generator().manual_seed(seed)

    def __len__(self):
        return (len(self.images.y) + BATCH - 1) // BATCH

    def __iter__(self):
        order = torch.randperm(len(self.images.y), generator=self.random)
        for rows in order.split(BATCH):
            x, y = self.images.x[rows], self.images.y[rows]
            flip = torch.rand(len(rows), generator=self.random) < 0.5
            x[flip], y[flip] = x[flip].flip(-1), y[flip].flip(-1)
            yield x.contiguous(memory_format=torch.channels_last), y


class Block(nn.Sequential):
    """Two convolutions."""

    def __init__(self, inside, outside):
        parts = []
        for channels in (inside, outside):
            convolution = nn.Conv2d(channels, outside, 3, padding=1, bias=False)
            parts += [convolution, nn.BatchNorm2d(outside), nn.ReLU()]
        super().__init__(*parts)


class UNet(nn.Module):
    """Down and up again, with the finer features beside the coarser ones.

    Two by two pixels are one position of many channels, on the way in and on the way out: a
    quarter of the time, and no pixel is lost.
    """

    def __init__(self, widths=(16, 32, 64, 128), classes=CLASSES):
        super().__init__()
        pairs = list(pairwise(widths))
        self.down = nn.ModuleList([Block(3 * 4, widths[0]), *(Block(a, b) for a, b in pairs)])
        self.up = nn.ModuleList([Block(a + b, a) for a, b in reversed(pairs)])
        self.last = nn.Conv2d(widths[0], classes * 4, 1)

    def forward(self, x):
        x, finer = F.pixel_unshuffle(x, 2), []
        for block in self.down:
            x = block(F.max_pool2d(finer[-1], 2, ceil_mode=True) if finer else x)
            finer.append(x)
        for block, beside in zip(self.up, reversed(finer[:-1]), strict=True):
            x = block(torch.cat([F.interpolate(x, size=beside.shape[2:]), beside], 1))
        return F.pixel_shuffle(self.last(x), 2)


def train(loss, images, seed, epochs):
    """The trained network; the rate rises for a tenth of the epochs and falls to nothing."""
    torch.manual_seed(seed)
    model = UNet().to(memory_format=torch.channels_last)

    def rate(epoch):
        share = (epoch + 0.5) / epochs
        return min(10 * share, 0.5 + 0.5 * np.cos(np.pi * share))

    ss.training.fit(
        model,
        loss,
        Batches(images, seed),
        metric="miou",
        optimizer=lambda p: AdamW(p, RATE, weight_decay=1e-2),
        scheduler=lambda optimizer: LambdaLR(optimizer, rate),
        max_epochs=epochs,
        **SETTINGS,
    )
    return model.eval()


@torch.no_grad()
def scores(model, images):
    """Logits of all images."""
    return torch.cat([model(x) for x in images.x.split(BATCH)])


def judge(model, val, test):
    """What the tables show, and the IoU of each class."""
    z, z_test = scores(model, val), scores(model, test)
    flat, y = z.movedim(1, -1).flatten(0, 2), val.y.flatten()
    some = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[:TUNED_ON]
    offsets = ss.best_offsets(flat[some], y[some], "miou", ignore_index=VOID)
    each = ss.Jaccard(average=None)
    by_class = ss.evaluate(z_test, test.y, each, **SETTINGS)
    tuned = ss.evaluate(z_test, test.y, each, offsets=offsets, **SETTINGS)
    rare = [NAMES.index(name) for name in ("pole", "sign", "bicyclist")]
    return {
        "test": float(np.mean(by_class)),
        "tuned": float(np.mean(tuned)),
        "rare": float(np.mean([by_class[k] for k in rare])),
        "image": ss.evaluate(z_test, test.y, "miou", per="image", **SETTINGS),
        "validation": ss.evaluate(z, val.y, "miou", **SETTINGS),
        "by_class": by_class,
        "by_class_tuned": tuned,
        **image_dice(z, val.y, z_test, test.y),
    }


def image_dice(z, y, z_test, y_test):
    """Dice of each image and class against the rest, the mean over both, by three decisions:
    a probability of 1/2, the threshold of the class that is best on the validation images, and
    the mask with the best expected Dice. Images without the class are left out."""
    p, p_test = torch.softmax(z, 1), torch.softmax(z_test, 1)
    found = {"half": [], "threshold": [], "expected": []}
    settings = {"per": "image", "empty": "ignore", "from_logits": False}
    for k in range(CLASSES):
        own = {"sample_weight": (y != VOID).double(), **settings}
        taus = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
        dice = [ss.evaluate(p[:, k], y == k, "dice", threshold=t, **own) for t in taus]
        best = taus[int(np.argmax(dice))]
        own["sample_weight"] = (y_test != VOID).double()
        decisions = ({}, {"threshold": best}, {"decide": "expected-dice"})
        for name, how in zip(found, decisions, strict=True):
            found[name].append(ss.evaluate(p_test[:, k], y_test == k, "dice", **how, **own))
    return {f"dice_{name}": float(np.mean(values)) for name, values in found.items()}


def main(argv=None):
    """Train, judge, print."""
    names = losses(torch.ones(CLASSES))
    parser = runs.parser(__doc__.split("\n")[0], "camvid")
    parser.add_argument("--epochs", type=int, help="12, or 36 with --full")
    parser.add_argument("--full", action="store_true", help="120 x 160")
    args = runs.arguments(parser, argv, names)
    size, epochs = (120, args.epochs or 36) if args.full else (60, args.epochs or 12)
    if args.quick:
        size, epochs, args.seeds = 30, 1, 1
    images, val, test = load(args.data, size)
    if args.quick:
        images, val, test = (Images(part.x[:16], part.y[:16]) for part in (images, val, test))
    counts = torch.bincount(images.y.flatten(), minlength=CLASSES)[:CLASSES]
    made = losses(counts.clamp(min=1) / counts.sum())

    def run(key):
        return judge(train(made[key["loss"]], images, key["seed"], epochs), val, test)

    keys = [
        {"loss": name, "size": size, "epochs": epochs, "seed": seed}
        for seed in range(args.seeds)
        for name in args.losses
    ]
    rows = runs.run_all(keys, run, args.out)
    print(f"CamVid at {size} x {images.x.shape[3]}, {epochs} epochs: mean IoU of the test images\n")
    columns = {
        "test": "most probable class",
        "tuned": "tuned offsets",
        "rare": "pole, sign, bicyclist",
        "image": "mean over images",
    }
    print(runs.table(rows, args.losses, columns, "cross-entropy"))
    print("\nDice of each image and class against the rest, by the decision\n")
    columns = {"dice_half": "1/2", "dice_threshold": "tuned threshold", "dice_expected": "expected"}
    print(runs.table(rows, args.losses, columns, "cross-entropy"))


if __name__ == "__main__":
    main()
