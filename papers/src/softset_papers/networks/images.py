"""Networks on images and graphs: one at a time through ``softset.training.fit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softset.checks import check_choice
from softset.losses.surrogate import balanced_class_weight
from softset.training.loop import History
from softset.training.phases import RecipeLike
from softset.training.single import fit
from softset_papers.datasets.images import ImageSet, load_images, split_images
from softset_papers.networks.architectures import Darknet19, ResNet, TinyDarknet
from softset_papers.networks.losses import make_recipe

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "tiny-darknet": TinyDarknet,
    "darknet-19": Darknet19,
    "resnet-18": lambda **settings: ResNet(18, **settings),
    "resnet-34": lambda **settings: ResNet(34, **settings),
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
}
_SCORE_ROWS = 500  # at once, when nothing is trained


# --- data ---------------------------------------------------------------------------------------


class Some(NamedTuple):
    """Inputs ``[n, ...]`` and targets of one part."""

    x: Tensor
    y: Tensor


class ImageParts(NamedTuple):
    """Normalized by the training images; binary targets, or classes."""

    train: Some
    validation: Some
    test: Some
    classes: tuple[str, ...]


@cache
def all_images(name: str, data_dir: str | None) -> ImageSet:
    """The images of a set, kept for the next run."""
    return load_images(name, data_dir)


def prepare_images(
    name: str,
    how: str,
    seed: int,
    data_dir: str | None,
    *,
    sizes: list[int] | None = None,
    normalize: str = "channel",
) -> ImageParts:
    """The parts of a set as floats.

    ``normalize``: ``"channel"`` centers and scales each channel, ``"pixel"`` takes off the mean
    image and makes gray images 32 x 32 with three channels (paper 004 section 5.1).
    """
    check_choice("normalize", normalize, ("channel", "pixel"))
    data = all_images(name, data_dir)
    rows = split_images(data, how, seed, None if sizes is None else (sizes[0], sizes[1], sizes[2]))
    inputs = [torch.from_numpy(data.x[r]).float() / 255 for r in rows]
    if normalize == "pixel":
        if data.x.shape[1] == 1:
            pad = (32 - data.x.shape[-1]) // 2
            inputs = [nn.functional.pad(x, (pad,) * 4).expand(-1, 3, -1, -1) for x in inputs]
        mean = inputs[0].mean(0)
        inputs = [x - mean for x in inputs]
    else:
        mean, spread = (f(inputs[0], dim=(0, 2, 3)) for f in (torch.mean, torch.std))
        spread = torch.where(spread > 1e-6, spread, 1.0)
        inputs = [(x - mean[:, None, None]) / spread[:, None, None] for x in inputs]
    parts = [Some(x, torch.from_numpy(data.y[r])) for x, r in zip(inputs, rows, strict=True)]
    return ImageParts(parts[0], parts[1], parts[2], data.classes)


class Batches:
    """Shuffled batches; ``augment`` crops at random after padding by 4, and mirrors half.

    A last batch of one row is left out: batch normalization has no spread to divide by there.
    Targets are flattened, as those of graphs have one for each pair.
    """

    def __init__(self, part: Some, size: int, seed: int = 0, augment: bool = False) -> None:
        self.part, self.size, self.augment = part, size, augment
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self.part.y), generator=self.generator)
        for start in range(0, len(order), self.size):
            rows = order[start : start + self.size]
            if len(rows) > 1:
                x = self.part.x.index_select(0, rows)
                x = crop_and_mirror(x, self.generator) if self.augment else x
                yield x, self.part.y.index_select(0, rows).flatten()


def crop_and_mirror(x: Tensor, generator: torch.Generator, pad: int = 4) -> Tensor:
    """Each image moved by up to ``pad`` pixels, black coming in, and half of them mirrored.

    >>> crop_and_mirror(torch.ones(2, 3, 8, 8), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 8, 8])
    """
    n, _, height, width = x.shape
    padded = nn.functional.pad(x, (pad,) * 4)
    up, left = torch.randint(0, 2 * pad + 1, (2, n, 1), generator=generator)
    columns = left + torch.arange(width)
    mirrored = torch.rand(n, 1, generator=generator) < 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    rows = up + torch.arange(height)
    image = torch.arange(n)[:, None, None]
    moved = padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)


# --- training -----------------------------------------------------------------------------------


def _pieces(x: Tensor) -> list[Tensor]:
    return [x[i : i + _SCORE_ROWS] for i in range(0, len(x), _SCORE_ROWS)]


@torch.no_grad()
def scores_of(model: nn.Module, x: Tensor) -> Tensor:
    """Logits ``[n]``, or ``[n, outputs]`` if there are several, in the mode for evaluation."""
    model.eval()
    parts = torch.cat([model(rows) for rows in _pieces(x)])
    return parts.squeeze(-1) if parts.dim() == 2 and parts.shape[1] == 1 else parts


def make_optimizer(options: dict[str, Any]) -> Callable[[Any], torch.optim.Optimizer]:
    """The optimizer of the options, from parameters."""
    kind = options.get("optimizer", "adam")
    check_choice("optimizer", kind, OPTIMIZERS)
    settings = {k: options[k] for k in ("momentum", "weight_decay") if k in options}
    return lambda p: OPTIMIZERS[kind](p, lr=options["learning_rate"], **settings)


def recipe_for(options: dict[str, Any], y: Tensor, classes: tuple[str, ...]) -> RecipeLike:
    """``make_recipe`` with what it takes from the training targets ``y``.

    With ``options["balanced"]`` classes weigh as much as each other (paper 004 eq. 2).
    """
    weight = balanced_class_weight(y) if options.get("balanced") else None
    return make_recipe(options, classes, prevalence=float(y.double().mean()), class_weight=weight)


def train_network(
    model: nn.Module,
    train: Some,
    validation: Some,
    options: dict[str, Any],
    seed: int,
    classes: tuple[str, ...],
    each_epoch: Callable[[nn.Module], None] | None = None,
) -> History:
    """Train ``model`` in place, to its best epoch on validation.

    With ``each_epoch`` all epochs are run, and it is called after each of them.
    """
    watch = None if each_epoch is None else (lambda _: _EachEpoch(model, each_epoch))
    return fit(
        model,
        recipe_for(options, train.y, classes),
        Batches(train, options["batch_size"], seed, options.get("augment", False)),
        None if each_epoch is not None else _in_order(validation),
        metric="f1",
        task="multiclass" if len(classes) > 2 else "binary",
        optimizer=make_optimizer(options),
        scheduler=watch,  # type: ignore[arg-type]
        max_epochs=options["max_epochs"],
        patience=options["patience"],
    )


def train_image_network(
    parts: ImageParts,
    options: dict[str, Any],
    seed: int,
    each_epoch: Callable[[nn.Module], None] | None = None,
) -> tuple[nn.Module, History]:
    """A trained network for images, and the history of its training."""
    torch.manual_seed(seed)
    model = NETWORKS[options["network"]](
        outputs=len(parts.classes) if len(parts.classes) > 2 else 1,
        channels=parts.train.x.shape[1],
        width=options.get("width", 1.0),
    ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster on a CPU
    history = train_network(
        model, parts.train, parts.validation, options, seed, parts.classes, each_epoch
    )
    return model, history


def _in_order(part: Some) -> list[tuple[Tensor, Tensor]]:
    return [(x, y.flatten()) for x, y in zip(_pieces(part.x), _pieces(part.y), strict=True)]


class _EachEpoch:
    """Stands where ``fit`` takes a scheduler, which steps after each epoch."""

    def __init__(self, model: nn.Module, call: Callable[[nn.Module], None]) -> None:
        self.model, self.call = model, call

    def step(self) -> None:
        self.call(self.model)
