"""Networks and linear models as one ``torch.nn.Module`` or ONNX file, from inputs to decisions."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from softset.checks import require
from softset.decisions.calibration import Calibrator
from softset.decisions.decision import Decision
from softset.storage.files import write_safely
from softset.tables.labels import LabelEncoding
from softset.tables.scaling import FAR, SQUASH
from softset.tasks import Task
from softset.typing import Floats, PathLike, Settings

# Scaled inputs are clipped here before they are squashed: squares of larger ones overflow in
# float32, and squashing has long made all of them 3.
_FAR = 1e18


class Layers(NamedTuple):
    """What a classifier computes its scores with.

    ``u = (x - center) / scale``, clipped beyond ``FAR``, squashed into (-3, 3) if ``squash`` says
    so; then perceptrons with ReLU, all members at once: weights ``[members, inputs, outputs]`` and
    biases ``[members, 1, outputs]`` of each layer.
    """

    center: Floats
    scale: Floats
    squash: bool
    weights: list[Tensor]
    biases: list[Tensor]


class Exportable:
    """A classifier made of ``Layers``: ``to_torch`` and ``to_onnx`` follow from them."""

    _labels: LabelEncoding
    _decision: Decision
    _calibrator: Calibrator | None

    def _layers(self) -> Layers:
        raise NotImplementedError

    def to_torch(self) -> ExportedModule:
        """The fitted classifier as one module, scaling and decision inside: ``ExportedModule``."""
        return to_torch(self)

    def to_onnx(self, path: PathLike) -> None:
        """Write ``to_torch()`` to an ONNX file (``pip install softset[onnx]``): ``to_onnx``."""
        to_onnx(self, path)


class ExportedModule(nn.Module):
    """Inputs ``x (n, features)``, not scaled -> ``(probabilities, decision)``.

    ``probabilities`` are those of ``predict_proba``: ``(n, classes)`` in the order of ``classes_``,
    or ``(n, labels)``. ``decision`` is ``predict`` as int64: the place of the class in ``classes_``
    ``(n,)``, or 0 and 1 ``(n, labels)``. It holds the tuned threshold, so it may differ from the
    largest probability.

    ``predict`` refuses rows with NaN or infinity. A module cannot, so these get the probability NaN
    and the decision -1.
    """

    center: Tensor
    scale: Tensor
    far: Tensor
    logit: Tensor

    def __init__(
        self,
        layers: Layers,
        labels: LabelEncoding,
        decision: Decision,
        calibrator: Calibrator | None = None,
    ) -> None:
        super().__init__()
        self.task, self.positive = labels.task, labels.positive
        self.squash, self.depth = layers.squash, len(layers.weights)
        self.calibrated = calibrator is not None
        tensors = {
            "center": torch.from_numpy(layers.center),
            "scale": torch.from_numpy(layers.scale),
            "far": torch.tensor(FAR, dtype=torch.float64),  # a constant would lose it in ONNX
            "logit": torch.from_numpy(np.asarray(decision.logit)),
            **{f"weight{i}": w for i, w in enumerate(layers.weights)},
            **{f"bias{i}": b for i, b in enumerate(layers.biases)},
            **({} if calibrator is None else _maps_of(calibrator)),
        }
        for name, value in tensors.items():
            # A copy: what is done to the module leaves the classifier as it is.
            copied = value.detach().to(torch.float64, copy=True).contiguous()
            self.register_buffer(name, copied)
        self.eval()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See the class."""
        if x.dim() != 2 or x.shape[1] != len(self.center):
            raise ValueError(
                f"x must have shape (n, {len(self.center)}), got {tuple(x.shape)}. Pass one row "
                "for each example, with the columns of training in their order."
            )
        x = x.to(self.center.dtype)
        scores = averaged(self._members(x), self.task)
        # An input of infinity would be squashed to 3 and look like any other.
        usable = torch.isfinite(x).all(1, keepdim=True)
        p = torch.where(usable, self._probabilities(scores), math.nan)
        decision = self._decided(scores)
        return p, torch.where(usable if decision.dim() == 2 else usable.squeeze(1), decision, -1)

    def _members(self, x: Tensor) -> Tensor:
        """Logits of every member, ``[members, n]`` or ``[members, n, classes or labels]``."""
        u = ((x - self.center) / self.scale).clamp(-self.far, self.far)
        if self.squash:  # as softset.tables.scaling.Scaler
            u = u.clamp(-_FAR, _FAR)
            u = u / torch.sqrt(1 + (u / SQUASH) ** 2)
        for i in range(self.depth):
            weight, bias = self.get_buffer(f"weight{i}"), self.get_buffer(f"bias{i}")
            u = torch.baddbmm(bias, u.expand(len(weight), *u.shape[-2:]), weight)
            u = u.relu() if i < self.depth - 1 else u
        return u.squeeze(-1) if self.task.single else u

    def _believed(self, scores: Tensor) -> Tensor:
        """As ``softset.decisions.calibration.Calibrator``; outputs are the last dimension."""
        if self.task.exclusive:
            logs = torch.log_softmax(scores, -1).clamp(max=-torch.finfo(scores.dtype).eps)
            scores = logs - torch.log(-torch.expm1(logs))
        slope, intercept, reach, log_ratio = self.get_buffer("calibration")
        z = slope * torch.minimum(torch.maximum(scores, -reach), reach) + intercept
        if self.task.exclusive:
            return F.logsigmoid(z) + log_ratio
        return z

    def _probabilities(self, scores: Tensor) -> Tensor:
        scores = self._believed(scores) if self.calibrated else scores
        if self.task.exclusive:
            return torch.softmax(scores, -1)
        kind = torch.finfo(scores.dtype)
        p = torch.sigmoid(scores).clamp(kind.tiny, 1 - kind.eps / 2)
        if self.task.independent:
            return p
        return torch.stack([1 - p, p] if self.positive == 1 else [p, 1 - p], 1)

    def _decided(self, scores: Tensor) -> Tensor:
        if self.task.exclusive:
            return (scores + self.logit).argmax(1)
        code = (scores >= self.logit).to(torch.int64)
        return code if self.positive == 1 else 1 - code


def _maps_of(calibrator: Calibrator) -> dict[str, Tensor]:
    """``[4, outputs]``, of two classes ``[4]``: slopes, intercepts, reaches and log ratios."""
    rows = [[getattr(m, name) for m in calibrator.maps] for name in ("slope", "intercept", "reach")]
    found = torch.tensor([*rows, calibrator.log_ratio], dtype=torch.float64)
    return {"calibration": found[:, 0] if calibrator.task.single else found}


def averaged(z: Tensor, task: Task, weights: Tensor | None = None) -> Tensor:
    """The scores of the mean over members of their probabilities.

    From logits ``[members, n]`` (binary), ``[members, n, labels]`` or ``[members, n, classes]``:
    the logit of the mean, of more than two classes its logarithm. ``weights [members]`` add up to
    1.

    >>> p = torch.tensor([[0.2], [0.4]], dtype=torch.float64)  # two members, one row
    >>> from softset.tasks import BINARY
    >>> torch.sigmoid(averaged(torch.logit(p), BINARY))
    tensor([0.3000], dtype=torch.float64)
    """
    # The logarithms of the means of p and of 1 - p: neither loses its digits next to 0.
    if weights is None:
        if task.exclusive:
            return torch.log_softmax(z, -1).logsumexp(0) - math.log(len(z))
        if len(z) == 1:
            return z[0]
        return F.logsigmoid(z).logsumexp(0) - F.logsigmoid(-z).logsumexp(0)
    logs = weights.log().reshape(-1, *[1] * (z.dim() - 1))
    if task.exclusive:
        return (torch.log_softmax(z, -1) + logs).logsumexp(0)
    return (F.logsigmoid(z) + logs).logsumexp(0) - (F.logsigmoid(-z) + logs).logsumexp(0)


def to_torch(model: object) -> ExportedModule:
    """One module of a fitted ``MetricMLPClassifier`` or ``MetricLinearClassifier``, or a ``Model``.

    The module of a ``Model`` takes what its encoder gives, ``model.inputs(table)``.

    >>> from sklearn.datasets import make_classification
    >>> from softset import MetricMLPClassifier
    >>> X, y = make_classification(200, random_state=0)
    >>> model = MetricMLPClassifier("f1", n_networks=2, max_epochs=5, random_state=0).fit(X, y)
    >>> probabilities, decision = to_torch(model)(torch.tensor(X))
    >>> probabilities.shape, bool((model.classes_[decision] == model.predict(X)).all())
    (torch.Size([200, 2]), True)
    """
    classifier = getattr(model, "classifier", model)
    if not isinstance(classifier, Exportable):
        raise ValueError(
            "model must be a MetricMLPClassifier or a MetricLinearClassifier, or a Model of one of "
            f"them, to be exported, got {type(classifier).__name__}. Serve others with load_model."
        )
    check_is_fitted(classifier)
    if classifier._decision.costs is not None and classifier._decision.costs.by_row:
        raise ValueError(
            "model decides by costs of each row, which its inputs do not hold. To export one "
            "threshold, use model.with_threshold(model.threshold_)."
        )
    return ExportedModule(
        classifier._layers(), classifier._labels, classifier._decision, classifier._calibrator
    )


def to_onnx(model: object, path: PathLike) -> None:
    """Write what ``to_torch`` makes to an ONNX file, whole or not at all.

    Input ``inputs``, float64 ``(rows, features)`` with any number of rows; outputs
    ``probabilities`` and ``decision`` as of ``ExportedModule``. All numbers are float64: in float32
    a score next to the threshold would be decided otherwise than by ``predict``. The metadata
    says in JSON what the numbers mean: ``classes`` (of multilabel models the names of labels),
    ``features`` (the columns, null if they have no names), ``task``, and ``promises`` if there are
    any.
    """
    module = to_torch(model)
    for package in ("onnx", "onnxscript"):  # torch.onnx needs both
        require(package, "onnx", "exporting to ONNX")
    rows = torch.zeros(2, len(module.center), dtype=torch.float64)
    with _quiet():
        program = torch.onnx.export(
            module,
            (rows,),
            input_names=["inputs"],
            output_names=["probabilities", "decision"],
            dynamic_shapes={"x": {0: torch.export.Dim("rows")}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None  # it is, with dynamo
    graph = program.model_proto
    for name, value in _described(model, module).items():
        entry = graph.metadata_props.add()
        entry.key, entry.value = name, json.dumps(value, ensure_ascii=False)

    def write(to: Path) -> None:
        to.write_bytes(graph.SerializeToString())

    write_safely(path, write)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says of itself: deprecations, and that it has no torchvision."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for kind in (FutureWarning, DeprecationWarning):
                warnings.simplefilter("ignore", kind)
            yield
    finally:
        logger.setLevel(level)


def _described(model: Any, module: ExportedModule) -> Settings:
    encoder = getattr(model, "encoder", None)
    names = getattr(getattr(model, "classifier", model), "feature_names_in_", None)
    features = names if encoder is None else encoder.names_
    promises = getattr(model, "classifier", model).decision_.promises
    return {
        "classes": np.asarray(model.classes_).tolist(),
        "features": None if features is None else list(features),
        "task": module.task,
        **({"promises": [promise.packed() for promise in promises]} if promises else {}),
    }
