"""Rows on images and on graphs: one network at a time through ``softset.fit``, and what they score.

``image_run`` and ``graph_run`` are kinds of the runner: ``work(run, data_dir) -> result``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softset.checks import check_choice
from softset.counting.numerics import ratio
from softset.counting.steps import IdentityStep, LinearStep
from softset.decisions.evaluation import evaluate
from softset.decisions.offsets import best_offsets
from softset.losses.dice import ExampleDiceLoss
from softset.losses.pointwise import CrossEntropyLoss, MeanAbsoluteErrorLoss
from softset.losses.soft_metric import MetricLoss
from softset.losses.surrogate import SurrogateFBetaLoss, balanced_class_weight
from softset.metrics.formulas import Accuracy, FBeta, Precision, Recall
from softset.metrics.registry import get_metric
from softset.training.recipes import Phase, RecipeLike, make_phases
from softset.training.single import fit
from softset_papers.architectures import Darknet19, PairNetwork, ResNet, TinyDarknet
from softset_papers.datasets.graphs import load_graphs
from softset_papers.datasets.images import ImageSet, load_images, split_images
from softset_papers.datasets.splits import Part
from softset_papers.judging import judge
from softset_papers.networks import Fitted

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
    """Normalised by the training images; binary targets, or classes."""

    train: Some
    validation: Some
    test: Some
    classes: tuple[str, ...]


@cache
def _images(name: str, data_dir: str | None) -> ImageSet:
    return load_images(name, data_dir)


def prepare_images(
    name: str,
    how: str,
    seed: int,
    data_dir: str | None,
    *,
    sizes: list[int] | None = None,
    normalise: str = "channel",
) -> ImageParts:
    """The parts of a set as floats.

    ``normalise``: ``"channel"`` centres and scales each channel, ``"pixel"`` takes off the mean
    image and makes grey images 32 x 32 with three channels (paper 004 section 5.1).
    """
    check_choice("normalise", normalise, ("channel", "pixel"))
    data = _images(name, data_dir)
    rows = split_images(data, how, seed, None if sizes is None else (sizes[0], sizes[1], sizes[2]))
    inputs = [torch.from_numpy(data.x[r]).float() / 255 for r in rows]
    if normalise == "pixel":
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

    A last batch of one row is left out: batch normalisation has no spread to divide by there.
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


# --- losses -------------------------------------------------------------------------------------


class ClassDiceLoss(nn.Module):
    """V-Net's Dice (Milletari et al. 2016) of each class, averaged over the classes of the batch.

    >>> ClassDiceLoss()(torch.tensor([[9.0, 0.0], [0.0, 9.0]]), torch.tensor([0, 1])).item() < 1e-3
    True
    """

    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        p = torch.softmax(scores, -1)
        y = nn.functional.one_hot(target, scores.shape[-1]).to(p.dtype)
        support = y.sum(0)
        dice = ratio(2 * (p * y).sum(0), (p * p).sum(0) + support)
        return 1 - dice[support > 0].mean()


def make_recipe(options: dict[str, Any], y: Tensor, classes: tuple[str, ...]) -> RecipeLike:
    """The loss (or phases) that ``options["loss"]`` names, for training targets ``y``.

    ``beta`` is a number, or ``{class: beta}`` where other classes have 1; ``anneal`` is the rate at
    which the temperature falls from 0.2.
    """
    name = options["loss"]
    several = len(classes) > 2
    task = "multiclass" if several else "binary"
    beta = options.get("beta", 1.0)
    if isinstance(beta, dict):
        beta = tuple(float(beta.get(c, 1.0)) for c in classes)
    metric: Any = {"f1": "f1", "accuracy": "accuracy", "mcc": "mcc", "fbeta": FBeta(beta)}.get(name)
    if metric is not None:
        if options.get("anneal"):
            soft = MetricLoss(metric, task=task, step=LinearStep.at_temperature(0.2))
            return [Phase(soft, cooling={"rate": options["anneal"]})]
        return MetricLoss(metric, task=task, step=None if several else LinearStep(0.1))
    prevalence, weights = float(y.double().mean()), None
    if options.get("balanced"):
        weights = balanced_class_weight(y)
    makers: dict[str, Callable[[], Any]] = {
        "cross-entropy": lambda: CrossEntropyLoss(task=task, class_weight=weights),
        "warm": lambda: make_phases("warm", "f1", task),
        "dice": ClassDiceLoss,
        "dice-logit": lambda: ExampleDiceLoss("logit"),
        "dice-sigmoid": lambda: ExampleDiceLoss("probability"),
        "mae": lambda: MeanAbsoluteErrorLoss(class_weight=weights),
        "surrogate": lambda: SurrogateFBetaLoss(prevalence, beta),
        "identity": lambda: MetricLoss(FBeta(beta), step=IdentityStep(), class_weight=weights),
    }
    check_choice("loss", name, [*makers, "f1", "accuracy", "mcc", "fbeta"])
    return makers[name]()


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
    """The optimiser of the options, from parameters."""
    kind = options.get("optimizer", "adam")
    check_choice("optimizer", kind, OPTIMIZERS)
    settings = {k: options[k] for k in ("momentum", "weight_decay") if k in options}
    return lambda p: OPTIMIZERS[kind](p, lr=options["learning_rate"], **settings)


def train_image_network(
    parts: ImageParts,
    options: dict[str, Any],
    seed: int,
    each_epoch: Callable[[nn.Module], None] | None = None,
) -> tuple[nn.Module, int]:
    """A trained network, at its best epoch on validation; and how many epochs it took.

    With ``each_epoch`` all epochs are run, and it is called after each of them.
    """
    torch.manual_seed(seed)
    several = len(parts.classes) > 2
    model = NETWORKS[options["network"]](
        outputs=len(parts.classes) if several else 1,
        channels=parts.train.x.shape[1],
        width=options.get("width", 1.0),
    ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster on a CPU
    size, augment = options["batch_size"], options.get("augment", False)
    watch = None if each_epoch is None else (lambda _: _EachEpoch(model, each_epoch))
    history = fit(
        model,
        make_recipe(options, parts.train.y, parts.classes),
        Batches(parts.train, size, seed, augment),
        None if each_epoch is not None else _in_order(parts.validation),
        metric="f1",
        task="multiclass" if several else "binary",
        optimizer=make_optimizer(options),
        scheduler=watch,  # type: ignore[arg-type]
        max_epochs=options["max_epochs"],
        patience=options["patience"],
    )
    return model, len(history["loss"])


def _in_order(part: Some) -> list[tuple[Tensor, Tensor]]:
    return [(x, y.flatten()) for x, y in zip(_pieces(part.x), _pieces(part.y), strict=True)]


class _EachEpoch:
    """Stands where ``fit`` takes a scheduler, which steps after each epoch."""

    def __init__(self, model: nn.Module, call: Callable[[nn.Module], None]) -> None:
        self.model, self.call = model, call

    def step(self) -> None:
        self.call(self.model)


# --- runs ---------------------------------------------------------------------------------------

CLASSICAL = ("forest", "ccs")


def image_run(run: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """Train a row on images once for each seed, and judge it."""
    options = run["options"]
    parts = _parts_of(run, data_dir)
    started = time.process_time()
    epochs: list[int] = []
    validation: list[Tensor] = []
    test: list[Tensor] = []
    if run["fit"] in CLASSICAL:
        from softset_papers.classical import fit_after_pca

        validation, test = fit_after_pca(run["fit"], parts, options, run["seeds"])
    else:
        for seed in run["seeds"]:
            model, taken = train_image_network(parts, options, seed)
            validation.append(scores_of(model, parts.validation.x))
            test.append(scores_of(model, parts.test.x))
            epochs.append(taken)
    if len(parts.classes) == 2:
        values = _judge_binary(validation, test, parts.validation, parts.test, options)
    else:
        values = judge_classes(validation, test, parts)
    return _result(values, started, epochs)


def graph_run(run: dict[str, Any], data_dir: str | None) -> dict[str, Any]:
    """Train the network on graphs once for each seed, and judge all pairs together."""
    options = run["options"]
    graphs = load_graphs(data_dir)
    rng = np.random.default_rng(run["split"])
    frames = rng.permutation(len(graphs.people))[: run["rows"]]
    first, second = round(0.64 * len(frames)), round(0.8 * len(frames))
    parts = [
        Some(torch.from_numpy(graphs.people[f]), torch.from_numpy(graphs.pairs[f]))
        for f in (frames[:first], frames[first:second], frames[second:])
    ]
    started = time.process_time()
    epochs, validation, test = [], [], []
    for seed in run["seeds"]:
        torch.manual_seed(seed)
        network = PairNetwork(hidden=options["hidden"], rounds=options["rounds"])
        model = nn.Sequential(network, nn.Flatten(0))
        history = fit(
            model,
            make_recipe(options, parts[0].y, ("apart", "together")),
            Batches(parts[0], options["batch_size"], seed),
            _in_order(parts[1]),
            optimizer=make_optimizer(options),
            max_epochs=options["max_epochs"],
            patience=options["patience"],
        )
        epochs.append(len(history["loss"]))
        validation.append(scores_of(model, parts[1].x))
        test.append(scores_of(model, parts[2].x))
    values = _judge_binary(validation, test, parts[1], parts[2], options)
    return _result(values, started, epochs)


def _parts_of(run: dict[str, Any], data_dir: str | None) -> ImageParts:
    options = run["options"]
    sizes = options.get("images")
    if run["rows"] is not None:  # a quick look
        sizes = [max(2, round(share * run["rows"])) for share in (0.6, 0.2, 0.2)]
    return prepare_images(
        run["data"],
        options["split"],
        run["split"],
        data_dir,
        sizes=sizes,
        normalise=options.get("normalise", "channel"),
    )


def _judge_binary(
    validation: list[Tensor], test: list[Tensor], held: Some, tested: Some, options: dict[str, Any]
) -> Any:
    scores = [torch.stack(s).double().numpy() for s in (validation, test)]
    fitted = Fitted(scores[0], scores[1], {})
    empty: NDArray[np.float32] = np.zeros((0, 0), np.float32)
    first, second = (Part(empty, part.y.flatten().numpy(), None) for part in (held, tested))
    return judge(fitted, first, second, options.get("output") == "logit")


def judge_classes(validation: list[Tensor], test: list[Tensor], parts: ImageParts) -> Any:
    """Macro metrics, and precision and recall of dog and frog, of the largest score.

    ``"f1 tuned"`` adds offsets of the classes that are best on validation. Nothing else differs
    between protocols: papers 002 and 003 take the largest probability.
    """
    y = parts.test.y
    metrics = {"f1": get_metric("f1"), "accuracy": Accuracy(), "mcc": get_metric("mcc")}
    values: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        values.setdefault(name, []).append(round(value, 5))

    for held, scores in zip(validation, test, strict=True):
        for name, metric in metrics.items():
            add(name, evaluate(scores, y, metric, task="multiclass"))
        precision = evaluate(scores, y, Precision(average=None), task="multiclass")
        recall = evaluate(scores, y, Recall(average=None), task="multiclass")
        for which in ("dog", "frog"):
            if which in parts.classes:
                index = parts.classes.index(which)
                add(f"precision {which}", precision[index])
                add(f"recall {which}", recall[index])
        offsets = best_offsets(held, parts.validation.y, "f1")
        add("f1 tuned", evaluate(scores, y, "f1", task="multiclass", offsets=offsets))
    return dict.fromkeys(("fair", "published", "code"), values)


def _result(values: Any, started: float, epochs: list[int]) -> dict[str, Any]:
    date = time.strftime("%Y-%m-%d", time.gmtime())
    seconds = round(time.process_time() - started, 2)
    return {"values": values, "cpu": seconds, "date": date, "epochs": epochs}
