"""Probabilities and decisions in a file, as ``softset predict`` writes them, or others do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from softset.cli.inputs import Labeled, ReadOptions, check_columns, read_labeled

if TYPE_CHECKING:
    from softset.tasks import Task
    from softset.typing import Array, Floats, Frame, Ints, Label, Series


@dataclass
class Scored:
    """Scores, labels and decisions of the same rows, classes as codes: ``scores`` are probabilities
    or logits, ``(n,)`` or ``(n, classes or labels)``; ``prediction`` are the decisions in the file,
    or None.
    """

    task: Task
    classes: Sequence[Label]
    scores: Floats
    y: Ints
    prediction: Ints | None
    from_logits: bool = False
    table: Frame | None = None  # the columns of the file

    @property
    def positive(self) -> str:
        """The positive class of two and its fraction of the rows, in words; else empty."""
        from softset.tables.labels import positive_line

        return positive_line(self.classes[1], float(self.y.mean())) if self.task.single else ""


def read_scores(
    file: Path,
    target: list[str],
    columns: list[str] | None,
    logits: bool,
    pos_label: str | None,
    *,
    decided: bool = False,
    **options: Unpack[ReadOptions],
) -> Scored:
    """The scores in a file; those of ``softset predict`` unless ``columns`` names others.

    ``decided``: with the column of predictions, if there is one.
    """
    import numpy as np

    from softset.tables.labels import read_labels
    from softset.tables.reading import expanded

    # Decisions are class names: "01" is not 1.
    options["text"] = ["prediction"]
    data = read_labeled(file, target, **options)
    labels, y = read_labels(data.labels, pos_label)
    task = labels.task
    classes = data.target if task.independent else labels.names
    used = expanded(columns or [], data.table.columns)
    if not used:
        used = [f"p_{c}" for c in (classes[1:] if task.single else classes)]
        if any(n not in data.table.columns for n in used):
            raise ValueError(
                f"{file.name} has no column(s) {', '.join(used)}: name the probabilities "
                "with --scores COLUMN, or give --model."
            )
    wanted = task.outputs(len(classes))
    if len(used) != wanted:
        raise ValueError(
            f"--scores names {len(used)} column(s), {wanted} expected: "
            + (
                f"the probability of {classes[1]!r}."
                if task.single
                else f"one for each of {', '.join(map(str, classes))}, in this order."
            )
        )
    check_columns(file, data.table, used)
    numbers = np.column_stack([_numbers(file, name, data.table[name]) for name in used])
    numbers = numbers if logits else _probabilities(numbers, task, used)
    numbers = numbers[:, 0] if task.single else numbers
    prediction = _prediction(file, data, classes, task) if decided else None
    return Scored(task, classes, numbers, y, prediction, logits, data.table)


def _prediction(file: Path, data: Labeled, classes: Sequence[Label], task: Task) -> Ints | None:
    import numpy as np

    from softset.tables.labels import label_matrix, label_text

    names = ["prediction"] if not task.independent else [f"prediction_{c}" for c in classes]
    if any(name not in data.table.columns for name in names):
        return None
    if task.independent:
        return label_matrix(data.table[names].to_numpy(dtype=object))
    codes = {label_text(c): k for k, c in enumerate(classes)}
    words = [label_text(v) for v in data.table["prediction"].tolist()]
    if all(word.endswith(".0") for word in words):  # classes that are floats
        words = [word.removesuffix(".0") for word in words]
    for row, value in enumerate(words, 1):
        if value not in codes:
            raise ValueError(
                f"{file.name}: the prediction {value!r} in row {row} is no class of the target "
                f"({', '.join(codes)}). Decide by --scores or --threshold instead."
            )
    return np.array([codes[v] for v in words])


def _numbers(file: Path, name: str, series: Series) -> Floats:
    import numpy as np

    try:
        values = series.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{file.name}: column {name!r} must hold numbers (scores).") from None
    bad = np.flatnonzero(np.isnan(values))
    if len(bad):
        raise ValueError(
            f"{file.name}: the score {name!r} is missing in {len(bad)} row(s), the first is row "
            f"{bad[0] + 1}."
        )
    return values


def _probabilities(p: Floats, task: Task, names: list[str]) -> Floats:
    import numpy as np

    outside = (p < 0) | (p > 1)
    if outside.any():
        row, column = (int(i) for i in np.argwhere(outside)[0])
        raise ValueError(
            f"probabilities must lie in [0, 1]; {names[column]!r} has {p[row, column]:g} in row "
            f"{row + 1}. If these are logits, pass --logits."
        )
    if task.exclusive:
        sums = p.sum(1)
        if (np.abs(sums - 1) > 0.01).any():
            row = int(np.abs(sums - 1).argmax())
            raise ValueError(
                f"the probabilities of a row must add up to 1, those of row {row + 1} give "
                f"{sums[row]:g}. If these are logits, pass --logits."
            )
        return p / sums[:, None]
    return p


def decide(data: Scored, threshold: float | None) -> Array:
    """Codes of classes, or 0 and 1 of labels, by one threshold; 0.5 by default."""
    from softset.decisions.decision import Decision

    task = data.task
    scores = data.scores if data.from_logits else task.scores(data.scores)
    count = task.outputs(scores.shape[-1])
    if threshold is None:
        return Decision.plain(task, count)(scores)
    if task.exclusive:
        raise ValueError("--threshold is for two classes or labels; of several the largest wins.")
    return Decision.at(task, threshold, count)(scores)
