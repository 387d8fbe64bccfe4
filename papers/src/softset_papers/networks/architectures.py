"""The papers' networks for images and graphs; every one gives logits.

``width`` multiplies the number of channels (at least 4 remain), for runs on small machines.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

POOL = 0  # stands for 2 x 2 max-pooling in the lists below

# (channels, kernel size), from Redmon's page on Tiny Darknet and table 6 of Redmon and Farhadi 2017
_TINY = [
    *((16, 3), POOL, (32, 3), POOL),
    *((16, 1), (128, 3), (16, 1), (128, 3), POOL),
    *((32, 1), (256, 3), (32, 1), (256, 3), POOL),
    *((64, 1), (512, 3), (64, 1), (512, 3), (128, 1)),
]
_DARKNET_19 = [
    *((32, 3), POOL, (64, 3), POOL),
    *((128, 3), (64, 1), (128, 3), POOL),
    *((256, 3), (128, 1), (256, 3), POOL),
    *((512, 3), (256, 1), (512, 3), (256, 1), (512, 3), POOL),
    *((1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3)),
]
_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}


def _scaled(channels: int, width: float) -> int:
    return max(4, round(channels * width))


class _Darknet(nn.Sequential):
    """Convolution, batch normalization, leaky ReLU, as listed; 1 x 1 to the outputs; mean."""

    def __init__(self, layers: list, outputs: int, channels: int, width: float) -> None:
        parts: list[nn.Module] = []
        for layer in layers:
            if layer == POOL:
                parts.append(nn.MaxPool2d(2))
                continue
            size, kernel = _scaled(layer[0], width), layer[1]
            parts.append(nn.Conv2d(channels, size, kernel, padding=kernel // 2, bias=False))
            parts += [nn.BatchNorm2d(size), nn.LeakyReLU(0.1)]
            channels = size
        parts += [nn.Conv2d(channels, outputs, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        super().__init__(*parts)


class TinyDarknet(_Darknet):
    """16 convolutions and 4 poolings, images ``[N, channels, >= 16, >= 16]`` to ``[N, outputs]``.

    Paper 000 supplement 4.2, for CIFAR-10-Transportation and -Frog.

    >>> TinyDarknet(1)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 1])
    """

    def __init__(self, outputs: int = 1, channels: int = 3, width: float = 1.0) -> None:
        super().__init__(_TINY, outputs, channels, width)


class Darknet19(_Darknet):
    """19 convolutions and 5 poolings, images ``[N, channels, >= 32, >= 32]`` to ``[N, outputs]``.

    Paper 002 E.3.1, for CIFAR-10 and Caltech-256.

    >>> Darknet19(10, width=0.25)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(self, outputs: int = 10, channels: int = 3, width: float = 1.0) -> None:
        super().__init__(_DARKNET_19, outputs, channels, width)


class _Block(nn.Module):
    """``relu(x + bn(conv(relu(bn(conv x)))))``; where the shape changes, x goes through 1 x 1."""

    def __init__(self, inputs: int, size: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, size, 3, stride, 1, bias=False),
            nn.BatchNorm2d(size),
            nn.ReLU(),
            nn.Conv2d(size, size, 3, 1, 1, bias=False),
            nn.BatchNorm2d(size),
        )
        self.short: nn.Module = nn.Identity()
        if stride != 1 or inputs != size:
            self.short = nn.Sequential(
                nn.Conv2d(inputs, size, 1, stride, bias=False), nn.BatchNorm2d(size)
            )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.short(x) + self.body(x))


class ResNet(nn.Sequential):
    """ResNet of ``depth`` 18 or 34 for 32 x 32 images: a 3 x 3 stem without pooling.

    Paper 004 section 5.1 (He et al. 2016): four stages of 64, 128, 256 and 512 channels.

    >>> ResNet(18, 1, width=0.25)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 1])
    """

    def __init__(
        self, depth: int = 18, outputs: int = 1, channels: int = 3, width: float = 1.0
    ) -> None:
        if depth not in _BLOCKS:
            raise ValueError(f"depth must be 18 or 34, got {depth!r}.")
        last = _scaled(64, width)
        parts: list[nn.Module] = [
            nn.Conv2d(channels, last, 3, padding=1, bias=False),
            nn.BatchNorm2d(last),
            nn.ReLU(),
        ]
        for stage, blocks in enumerate(_BLOCKS[depth]):
            size = _scaled(64 * 2**stage, width)
            for block in range(blocks):
                parts.append(_Block(last, size, 2 if stage > 0 and block == 0 else 1))
                last = size
        parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, outputs)]
        super().__init__(*parts)


class PairNetwork(nn.Module):
    """Message passing on complete graphs: people ``[N, P, 4]`` to pairs ``[N, P (P - 1) / 2]``.

    A node is a person (x, y, cos, sin of the direction), an edge holds the distance of two. In
    each round every edge reads its two ends and every node the mean of its edges; at the end each
    pair is judged by the edges of both directions, so that the order of the people does not matter.

    Paper 001 section 5.3 follows a reference for its network that it does not describe: the sizes
    here (64 units, two rounds) are a choice.

    >>> PairNetwork()(torch.zeros(2, 6, 4)).shape
    torch.Size([2, 15])
    """

    def __init__(
        self, features: int = 4, hidden: int = 64, rounds: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        node, edge = [features] + [hidden] * rounds, [1] + [hidden] * rounds

        def layers(inputs: int) -> nn.Module:
            return nn.Sequential(
                nn.Linear(inputs, hidden),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
            )

        self.edges = nn.ModuleList(layers(2 * node[k] + edge[k]) for k in range(rounds))
        self.nodes = nn.ModuleList(layers(node[k] + hidden) for k in range(rounds))
        self.affinity = nn.Linear(hidden, 1)

    def forward(self, people: Tensor) -> Tensor:
        n = people.shape[1]
        place = people[..., :2]
        node = people
        edge = (place[:, :, None] - place[:, None]).norm(dim=-1, keepdim=True)  # [N, P, P, 1]
        others = (1 - torch.eye(n, device=people.device))[:, :, None]
        for read, gather in zip(self.edges, self.nodes, strict=True):
            ends = (node[:, :, None].expand(-1, n, n, -1), node[:, None].expand(-1, n, n, -1))
            edge = read(torch.cat([*ends, edge], -1))
            heard = (edge * others).sum(2) / max(n - 1, 1)
            node = gather(torch.cat([node, heard], -1))
        score = self.affinity(edge).squeeze(-1)
        i, j = torch.triu_indices(n, n, 1, device=people.device)
        return (score[:, i, j] + score[:, j, i]) / 2


def parameter_count(network: nn.Module) -> int:
    """How many numbers are trained.

    >>> parameter_count(nn.Linear(3, 2))
    8
    """
    return sum(p.numel() for p in network.parameters())
