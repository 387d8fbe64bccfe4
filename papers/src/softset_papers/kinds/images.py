"""Rows on images and on graphs: trained once for each seed, then judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softset.training.loop import History
from softset_papers.baselines.rows import fit_after_pca
from softset_papers.datasets.graphs import load_graphs
from softset_papers.datasets.splits import Part
from softset_papers.judging import Fitted, Values, judge, judge_classes
from softset_papers.kinds.context import Context
from softset_papers.networks.architectures import PairNetwork
from softset_papers.networks.images import (
    ImageParts,
    Some,
    prepare_images,
    scores_of,
    train_image_network,
    train_network,
)
from softset_papers.networks.small import coolings_in

CLASSICAL = ("forest", "ccs")


def image_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train a row on images once for each seed, and judge it."""
    options = run["options"]
    parts = parts_of(run, context.data_dir)
    histories: list[History] = []
    validation: list[Tensor] = []
    test: list[Tensor] = []
    if run["fit"] in CLASSICAL:
        validation, test = fit_after_pca(run["fit"], parts, options, run["seeds"])
    else:
        for seed in run["seeds"]:
            model, history = train_image_network(parts, options, seed)
            histories.append(history)
            validation.append(scores_of(model, parts.validation.x))
            test.append(scores_of(model, parts.test.x))
    if len(parts.classes) == 2:
        values = _judge_binary(validation, test, parts.validation.y, parts.test.y, options)
    else:
        values = judge_classes(validation, test, parts.validation.y, parts.test.y, parts.classes)
    return {"values": values, **_ends(histories, options)}


def graph_run(run: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train the network on graphs once for each seed, and judge all pairs together."""
    options = run["options"]
    graphs = load_graphs(context.data_dir)
    rng = np.random.default_rng(run["split"])
    frames = rng.permutation(len(graphs.people))[: run["rows"]]
    first, second = round(0.64 * len(frames)), round(0.8 * len(frames))
    train, held, tested = (
        Some(torch.from_numpy(graphs.people[f]), torch.from_numpy(graphs.pairs[f]))
        for f in (frames[:first], frames[first:second], frames[second:])
    )
    if run["fit"] == "constant":
        scores = [torch.full((part.y.numel(),), options["score"]) for part in (held, tested)]
        return {"values": _judge_binary([scores[0]], [scores[1]], held.y, tested.y, options)}
    histories, validation, test = [], [], []
    for seed in run["seeds"]:
        torch.manual_seed(seed)
        network = PairNetwork(hidden=options["hidden"], rounds=options["rounds"])
        model = nn.Sequential(network, nn.Flatten(0))
        history = train_network(model, train, held, options, seed, ("apart", "together"))
        histories.append(history)
        validation.append(scores_of(model, held.x))
        test.append(scores_of(model, tested.x))
    values = _judge_binary(validation, test, held.y, tested.y, options)
    return {"values": values, **_ends(histories, options)}


def parts_of(run: dict[str, Any], data_dir: str | None) -> ImageParts:
    """The images of a run, perhaps fewer for a quick look."""
    options = run["options"]
    sizes = options.get("images")
    if run["rows"] is not None:
        sizes = [max(2, round(share * run["rows"])) for share in (0.6, 0.2, 0.2)]
    return prepare_images(
        run["data"],
        options["split"],
        run["split"],
        data_dir,
        sizes=sizes,
        normalize=options.get("normalize", "channel"),
    )


def _judge_binary(
    validation: list[Tensor],
    test: list[Tensor],
    held: Tensor,
    y: Tensor,
    options: dict[str, Any],
) -> Values:
    scores = [torch.stack(s).double().numpy() for s in (validation, test)]
    empty: NDArray[np.float32] = np.zeros((0, 0), np.float32)
    first, second = (Part(empty, target.flatten().numpy(), None) for target in (held, y))
    return judge(Fitted(scores[0], scores[1], {}), first, second, options)


def _ends(histories: list[History], options: dict[str, Any]) -> dict[str, Any]:
    """How long each network was trained, why that ended, and how often it cooled."""
    epochs = [len(h["loss"]) for h in histories]
    ends = ["max_epochs" if n >= options.get("max_epochs", 0) else "stopped" for n in epochs]
    coolings = [coolings_in(h["temperature"]) for h in histories]
    found: dict[str, Any] = {"epochs": epochs, "outcome": ends}
    return found | ({"coolings": coolings} if options.get("anneal") else {})
