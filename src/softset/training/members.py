"""Train K small networks at once on tensors in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from softset.checks import check_choice, check_integer
from softset.metrics.registry import MetricLike, one_number
from softset.progress import Progress
from softset.tasks import get_task
from softset.training.batches import SAMPLING
from softset.training.checkpoints import Checkpoint
from softset.training.data import (
    checked_folds,
    compare_data,
    make_data,
    outputs_of,
)
from softset.training.networks import make_network
from softset.training.phases import RecipeLike, make_phases
from softset.training.recipes import DEFAULT_OF_MEMBERS
from softset.training.stack import Member, NetworkStack, StackSettings, Trained
from softset.training.updates import OPTIMIZERS
from softset.typing import ClassWeight, PathLike, TensorLike


def train_members(
    network: Sequence[int] | Callable[[], nn.Module],
    train: Sequence[TensorLike | None],
    validation: Sequence[TensorLike | None] | None = None,
    *,
    members: Sequence[Member] = (Member(),),
    recipe: RecipeLike = DEFAULT_OF_MEMBERS,
    metric: MetricLike = "f1",
    task: str = "binary",
    optimizer: str = "adamw",
    batch_size: int = 1024,
    max_epochs: int = 200,
    patience: int | None = 20,
    monitor: str = "loss",
    sampling: str = "shuffled",
    shared_order: int | None = None,
    class_weight: ClassWeight = None,
    folds: Sequence[int] | None = None,
    checkpoint: PathLike | None = None,
    checkpoint_seconds: float = 30.0,
    verbose: int = 0,
    on_epoch: Callable[[], bool] | None = None,
) -> Trained:
    """Train a network for each of ``members``, all in one stack.

    Args:
        network: hidden sizes of a perceptron with ReLU, or a function that returns a new module
            for inputs ``(N, ...)`` and scores ``(N,)``, ``(N, classes)`` or ``(N, labels)``.
        train: ``(x, y)`` or ``(x, y, sample_weight)``, tensors; ``y`` as for ``confusion``.
        validation: the same, for early stopping. Without it, all ``max_epochs`` are run.
        recipe: a name in ``softset.training.recipes.RECIPES``, such as ``"warm"``; a loss
            ``loss(scores, target[, sample_weight])``; or a list of ``Phase``.
        batch_size: the most rows in a batch; batches are as even as can be.
        max_epochs: the most epochs in each phase of the recipe.
        patience: epochs without a better validation before a phase ends (with ``"anneal"``,
            before the temperature falls). A phase starts from the best weights of the last one.
            ``None`` runs all epochs, and nothing is judged.
        monitor: stop by the validation ``"loss"`` or by the ``"metric"`` of hard decisions.
        sampling: ``"shuffled"``, ``"stratified"`` or ``"oversampled"`` batches.
        shared_order: a seed: all members see the same batches, which is faster. Without it each
            draws its own order.
        class_weight: as for the losses; for recipes given by name.
        folds: instead of ``validation``, the fold of each row of ``train``, from 0; -1 is in none.
            Member k is not trained on fold ``k % count`` and is judged by it. All members stop at
            the same epoch, the best for the mean of their losses, so that every row counts.
        checkpoint: a file to save to, and to go on from when it exists.
        verbose: 1 shows progress: live on a terminal and in a notebook, plain lines elsewhere.
        on_epoch: called after each epoch; stops the training by returning true.

    >>> import torch
    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(300, 2, generator=g)
    >>> y = (x[:, 0] + x[:, 1] > 1).long()
    >>> trained = train_members(
    ...     (8,), (x[:200], y[:200]), (x[200:], y[200:]), max_epochs=30,
    ...     members=[Member(seed=s, learning_rate=0.03) for s in range(3)], batch_size=50)
    >>> trained.scores(x).shape
    torch.Size([3, 300])
    """
    task = get_task(task)
    check_choice("optimizer", optimizer, OPTIMIZERS)
    check_choice("sampling", sampling, SAMPLING)
    check_integer("batch_size", batch_size, 1)
    if shared_order is not None:
        check_integer("shared_order", shared_order, 0)
    members = list(members)
    if not members or not all(isinstance(m, Member) for m in members):
        raise ValueError(f"members must be a list of Member, got {members!r}.")
    data = make_data("train", train, task)
    judged = None if validation is None else make_data("validation", validation, task)
    if judged is not None:
        compare_data(data, judged, task)
    if folds is not None and (validation is not None or shared_order is not None):
        raise ValueError("folds take the place of validation, and every member has its own order.")
    places = None if folds is None else checked_folds(folds, train)
    settings = StackSettings(
        members=members,
        metric=one_number(metric),
        phases=make_phases(recipe, metric, task, class_weight),
        task=task,
        optimizer=optimizer,
        batch_size=int(batch_size),
        max_epochs=max_epochs,
        patience=patience,
        monitor=monitor,
        sampling=sampling,
        shared_order=None if shared_order is None else int(shared_order),
        network=make_network(network, data.x, outputs_of(data, task)),
    )
    run = NetworkStack(settings, data, judged, places)
    file = None
    if checkpoint is not None:
        inputs = {
            "train": data,
            "validation": judged,
            "folds": None if places is None else (places,),
        }
        file = Checkpoint(checkpoint, settings.fingerprint(**inputs), checkpoint_seconds)
    run.run(Progress(verbose, max_epochs, len(members), settings.metric.name), file, on_epoch)
    return run.trained()
