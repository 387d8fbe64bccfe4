"""What ``compare`` found, typed. These dataclasses are the schema of ``comparison.json``."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from softset.classifiers.explaining import Importance
from softset.classifiers.model import Model
from softset.comparison.ladder import Ladder, RungId
from softset.comparison.statistics import Difference
from softset.comparison.verdict import Outcome, span, step_in_words, steps_note
from softset.metrics.registry import label_of
from softset.storage.container import whole
from softset.storage.files import SavedFileError, write_safely
from softset.storage.schema import decoded, encoded, sealed, unsealed

FORMAT = 2
Label = bool | int | float | str
Threshold = float | list[float]  # of two classes; of each label, or the offsets of several classes
TaskName = Literal["binary", "multiclass", "multilabel"]
Family = Literal["metric", "plain"]


@dataclass(frozen=True)
class CandidateResult:
    """One candidate on all splits; ``error`` says why it has no numbers, and is empty else.

    ``rung`` is its place on the ladder, ``size`` the bytes of its model.
    """

    id: str
    name: str
    family: Family
    rung: RungId
    description: str
    error: str
    scores: list[float]
    mean: float | None
    low: float | None
    high: float | None
    rank: float | None
    difference: Difference | None
    seconds: float | None
    size: int | None
    thresholds: list[Threshold] | None


@dataclass(frozen=True)
class Splits:
    """How the rows were split."""

    folds: int
    repeats: int
    count: int
    test_share: float
    duplicates: int
    groups: str | None
    note: str


@dataclass(frozen=True)
class Predictions:
    """Scores of rows that the model did not see, and the median of the folds' thresholds."""

    target: list[int] | list[list[int]]
    scores: list[float] | list[list[float]]
    threshold: Threshold | None
    note: str


@dataclass(frozen=True)
class History:
    """The epochs of one network: losses, and the metric on validation rows, soft and hard."""

    epoch: list[int]
    train_loss: list[float | None]
    validation_loss: list[float | None]
    soft: list[float | None]
    hard: list[float | None]
    phases: list[tuple[str, int]]


@dataclass(frozen=True)
class ClassCount:
    """The rows of a class, or those that have a label."""

    label: str
    rows: int


@dataclass(frozen=True)
class Column:
    """A column of the table, as it was read."""

    name: str
    kind: str
    missing: int | None
    values: int | None
    outputs: int | None
    note: str


@dataclass(frozen=True)
class Data:
    """The table: ``used`` rows were split, the winner was refitted on ``refitted`` of them."""

    rows: int
    features: int
    outputs: int
    classes: list[ClassCount]
    columns: list[Column]
    notes: list[str]
    file: str | None
    used: int | None = None
    refitted: int | None = None


@dataclass(frozen=True)
class Settings:
    """What the candidates were given; ``fits`` says which of them share one."""

    members: int
    patience: int
    max_epochs: int
    trees: int
    leaf: int
    folds: int
    repeats: int
    quick: bool
    level: float
    fits: dict[str, list[str]]


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found. All but ``model`` is what JSON can hold; see ``docs/comparison.md``.

    ``model`` is the refitted winner (``predict``, ``predict_proba``), None after ``from_dict``.

    >>> import softset as ss
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, weights=[0.8], random_state=0)
    >>> found = ss.compare(X, y, "f1", candidates=["linear-tuned", "linear-metric"], n_jobs=1,
    ...                    quick=True)
    >>> found.outcome, len(found.candidates), found.model.predict(X[:2]).shape
    ('stay', 2, (2,))
    >>> Comparison.from_dict(found.to_dict()).verdict == found.verdict
    True
    """

    metric: str
    task: TaskName
    classes: list[Label]
    positive: Label | None
    verdict: str
    advice: str
    outcome: Outcome
    winner: str
    reference: str
    ladder: Ladder
    candidates: list[CandidateResult]
    splits: Splits
    predictions: dict[str, Predictions]
    history: dict[str, History]
    importances: list[Importance]
    data: Data
    settings: Settings
    versions: dict[str, str]
    seed: int
    command: str
    date: str
    duration: float
    warnings: list[str]
    model: Model | None = field(
        default=None, repr=False, compare=False, metadata={"in_json": False}
    )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, for ``json.dump``; a checksum tells changes."""
        return sealed({"format": FORMAT, **encoded(self)})

    @classmethod
    def from_dict(cls, found: Any) -> Comparison:
        """The inverse of ``to_dict``. What is damaged or was changed is a ``SavedFileError``; a
        dictionary without a checksum is taken as it is."""
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            got = found.get("format") if isinstance(found, dict) else type(found).__name__
            raise SavedFileError(
                f"a comparison in format {FORMAT} was expected, got {got!r}. Compare again."
            )
        content = unsealed(found) if "checksum" in found else dict(found)
        del content["format"]
        comparison: Comparison = decoded(cls, content)
        return comparison

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_dict()`` as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), allow_nan=False)
        write_safely(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Comparison:
        """Read what ``save`` wrote; an error if it is not that."""
        data = Path(path).read_bytes()
        with whole(Path(path).name, "comparison"):
            return cls.from_dict(json.loads(data))

    def __str__(self) -> str:
        width = max(len(c.name) for c in self.candidates)
        head = f"{label_of(self.metric)} on test rows"
        lines = [self.verdict, *([self.advice] if self.advice else []), ""]
        names = {c.id: c.name for c in self.candidates}
        across = max(len(rung.name) for rung in self.ladder.rungs)
        for rung in self.ladder.rungs:
            line = f"{rung.name:{across}}  {rung.mean:6.3f}  {names[rung.choice]:{width}}"
            lines.append(f"{line}  {step_in_words(rung.step, rung.clear)}".rstrip())
        lines += [self.steps_note(), ""]
        lines.append(f"{head:{width + 2}}  mean  95 % interval      difference")
        for c in self.candidates:
            mark = {self.winner: ">", self.reference: "="}.get(c.id, " ")
            if c.mean is None:
                lines.append(f"{mark} {c.name:{width}}  failed: {c.error}")
                continue
            line = f"{mark} {c.name:{width}} {c.mean:6.3f}  {span(c.low, c.high)}"
            if c.difference:
                d = c.difference
                line += f"  {d.mean:+.3f} {span(d.low, d.high, '+')}"
            lines.append(line)
        end = f"> winner, = reference; {self.splits.note}"
        return "\n".join([*lines, "", end, *([self.drivers()] if self.importances else [])])

    def steps_note(self) -> str:
        """Under the ladder, wherever it is shown."""
        return steps_note(self.splits.count)

    def drivers(self, most: int = 5) -> str:
        """The columns that matter most to the winner, in a line."""
        shown = [f"{i.column} ({i.falls:.3f})" for i in self.importances[:most]]
        more = ", …" if len(self.importances) > most else ""
        return f"{label_of(self.metric)} falls without (shuffled): {', '.join(shown)}{more}"

    def _repr_html_(self) -> str:
        rows = []
        for c in self.candidates:
            d = c.difference
            bold = "font-weight:bold" if c.id == self.winner else ""
            cells = [
                c.name,
                "failed" if c.mean is None else f"{c.mean:.3f} {span(c.low, c.high)}",
                f"{d.mean:+.3f} {span(d.low, d.high, '+')}" if d else "",
            ]
            texts = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells)
            rows.append(f"<tr style='{bold}'>{texts}</tr>")
        head = f"<tr><th></th><th>{html.escape(label_of(self.metric))}</th><th>difference</th></tr>"
        said = "".join(
            f"<p>{html.escape(text)}</p>" for text in (self.verdict, self.advice) if text
        )
        return f"{said}<table>{head}{''.join(rows)}</table>"
