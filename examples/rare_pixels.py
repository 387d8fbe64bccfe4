"""Segmentation: the class I care about has 1 % of the pixels. Which loss finds it?

Made-up images with large bright shapes and a few thin scratches, under noise. A small network of
convolutions from the same start, with four losses, judged by the IoU of each class. Cross-entropy
leaves most of a scratch out, because most pixels that look like one are none. The soft mean IoU
counts every class alike; alone it may never find a class that the start does not see, so it is
added to cross-entropy.

    python examples/rare_pixels.py
"""

from __future__ import annotations

import torch
from matplotlib import pyplot as plt
from torch import nn

import softset as ss


def images(count, seed):
    """``(count, 1, 32, 32)`` noisy images, and classes: 0 ground, 1 shape, 2 scratch."""
    g = torch.Generator().manual_seed(seed)
    row, column = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    middle = torch.randint(6, 26, (count, 2, 1, 1), generator=g)
    radius = torch.randint(4, 8, (count, 1, 1), generator=g)
    far = (row - middle[:, 0]) ** 2 + (column - middle[:, 1]) ** 2
    y = (far < radius**2).long()
    start = torch.randint(2, 22, (count, 2, 1, 1), generator=g)
    along = row - start[:, 0]
    scratch = (along >= 0) & (along < 9) & (column - start[:, 1] == along)
    y[scratch] = 2
    light = torch.tensor([0.0, 1.0, 0.9])[y]
    return (light + 0.5 * torch.randn(y.shape, generator=g))[:, None], y


def network():
    """Four layers of convolutions, the same at every call."""
    torch.manual_seed(0)
    layers = []
    for inputs, outputs in ((1, 16), (16, 16), (16, 16)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(16, 3, 1))


def main(quick=False):
    """IoU of each class on new images, and one image as each network sees it."""
    x, y = images(40 if quick else 200, seed=0)
    x_new, y_new = images(100, seed=1)
    share = torch.bincount(y.flatten(), minlength=3) / y.numel()
    print("pixels of ground, shape, scratch:", *(f"{s:.1%}" for s in share))
    cross_entropy = ss.CrossEntropyLoss(task="multiclass")
    iou = ss.MetricLoss("miou", task="multiclass")
    losses = {
        "cross-entropy": cross_entropy,
        "balanced softmax": ss.BalancedSoftmaxLoss(torch.bincount(y.flatten(), minlength=3)),
        "soft mean IoU": iou,
        "cross-entropy + soft mean IoU": cross_entropy + iou,
    }
    figure, axes = plt.subplots(1, 2 + len(losses), figsize=(9, 2), layout="constrained")
    axes[0].imshow(x_new[0, 0].numpy(), cmap="gray")
    axes[1].imshow(y_new[0].numpy(), vmin=0, vmax=2)
    axes[0].set_title("image", fontsize=8)
    axes[1].set_title("truth", fontsize=8)
    for ax, (name, loss) in zip(axes[2:], losses.items(), strict=True):
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        random = torch.Generator().manual_seed(0)
        for _ in range(2 if quick else 30):
            for batch in torch.randperm(len(x), generator=random).split(10):
                optimizer.zero_grad()
                loss(model(x[batch]), y[batch]).backward()
                optimizer.step()
        with torch.no_grad():
            scores = model(x_new)
        each = ss.evaluate(scores, y_new, ss.Jaccard(None), task="multiclass")
        shown = "  ".join(f"{v:.3f}" for v in each)
        print(f"{name:30} IoU of each class  {shown}   mean {sum(each) / 3:.3f}")
        ax.imshow(scores[0].argmax(0).numpy(), vmin=0, vmax=2)
        ax.set_title(name.replace(" + ", "\n+ "), fontsize=8)
    for ax in axes:
        ax.axis("off")
    return figure


if __name__ == "__main__":
    main()
