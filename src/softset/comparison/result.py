"""The result of ``compare``, typed, and the words for its differences.

These dataclasses are the schema of ``comparison.json`` and of the lines of ``runs.jsonl``.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Literal

from softset.classifiers.model import Importance, Model
from softset.comparison.row_costs import RowCosts
from softset.formats import html_table
from softset.metrics.registry import METRICS, MetricLike, get_goal, label_of
from softset.storage.container import whole
from softset.storage.files import SavedFileError, write_safely
from softset.storage.schema import decoded, encoded, sealed, unsealed
from softset.tables.labels import positive_line
from softset.tasks import Task, get_task
from softset.typing import JSON

FORMAT = 3
# Of all claims about gains together, by Holm's method.
LEVEL = 0.05
Label = bool | int | float | str
# Of two classes; of each label, or the offsets of the classes.
ThresholdValue = float | list[float]
TaskName = Literal["binary", "multiclass", "multilabel"]
Family = Literal["metric", "baseline"]
StageId = Literal["user", "default", "tuned", "metric", "ensemble"]
STAGES: tuple[StageId, ...] = ("user", "default", "tuned", "metric", "ensemble")
Outcome = Literal["significant", "not significant", "stay"]


# --- gains ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """The mean of paired differences, its 95 % interval, two-sided ``p``, and P(mean > 0).

    ``probability`` is the posterior of the correlated Bayesian t-test with a flat prior (Corani
    and Benavoli 2015): how sure one may be that the mean difference is above zero. ``p_adjusted``
    is corrected by Holm's method for all differences that were tested with it. A single split has
    no interval.
    """

    mean: float
    low: float | None
    high: float | None
    p: float
    probability: float
    p_adjusted: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether the adjusted p is at most ``LEVEL``."""
        return self.p_adjusted <= LEVEL


@dataclass(frozen=True)
class Stage:
    """Choosing among the candidates of a stage and of those before it.

    ``choice`` is the best on all splits; ``scores`` are those of candidates that were chosen on
    other splits, with their ``mean`` and its 95 % interval. ``gain`` is the difference to the
    stage before.
    """

    id: StageId
    name: str
    choice: str
    scores: list[float]
    mean: float
    low: float | None
    high: float | None
    gain: Difference | None


@dataclass(frozen=True)
class Simpler:
    """Choosing among models that are at most a tenth as large as the best one.

    ``difference`` is to choosing among all, ``times`` how often ``candidate`` fits into the best.
    """

    candidate: str
    times: float
    difference: Difference


@dataclass(frozen=True)
class Gains:
    """The stages in their order, and the gain of the last over the first."""

    stages: list[Stage]
    total: Difference
    simpler: Simpler | None


def metric_label(metric: MetricLike, task: Task) -> str:
    """A metric in running text; its average over classes or labels is always named.

    >>> [metric_label("f1", get_task(task)) for task in ("binary", "multiclass")]
    ['F1', 'macro F1']
    """
    label = label_of(metric)
    try:
        averaged = get_goal(metric).metric
    except ValueError:  # a function of the user, loaded by name
        return label
    row = METRICS.get(averaged.key)
    unnamed = not averaged.says_average and row is not None and len(row.averages) > 1
    return f"{averaged.average} {label}" if unnamed and not task.single else label


def measured(label: str, value: float) -> str:
    """A metric and its value.

    >>> measured("F1", 0.5), measured("precision@recall>=0.9", 0.5)
    ('F1 0.500', 'precision 0.500 at recall>=0.9')
    """
    metric, _, constraints = label.partition("@")
    at = f" at {' and '.join(constraints.split('&'))}" if constraints else ""
    return f"{metric} {value:.3f}{at}"


def point_in_words(point: OperatingPoint, label: str, splits: int) -> str:
    """What a fixed threshold gave, in a clause.

    >>> point_in_words(OperatingPoint(0.4, {"recall": 0.88}, 3), "precision@recall>=0.9", 10)
    'precision 0.400 and recall 0.880, constraint broken in 3 of 10 splits'
    """
    metric = label.partition("@")[0]
    rates = "".join(f" and {name} {value:.3f}" for name, value in point.rates.items())
    broken = f"constraint broken in {point.broken} of {splits} splits"
    return f"{metric} {point.metric:.3f}{rates}, {broken}"


def significance(difference: Difference, brief: bool = False) -> str:
    """Whether a difference is significant, in the words of terminal and report; with its adjusted p
    unless ``brief``.

    >>> significance(Difference(0.1, 0.05, 0.15, 0.004, 0.99, p_adjusted=0.012))
    'significant (adjusted p 0.012)'
    >>> significance(Difference(0.1, None, None, 1.0, 0.5))
    'not significant'
    """
    word = "significant" if difference.significant else "not significant"
    if brief or difference.low is None:
        return word
    p = difference.p_adjusted
    return f"{word} (adjusted p {'< 0.001' if p < 0.001 else f'{p:.3f}'})"


def span(low: float | None, high: float | None, sign: str = "") -> str:
    """An interval; empty for that of a single split, which has none.

    >>> span(0.1, 0.25, "+"), span(None, None)
    ('[+0.100, +0.250]', '')
    """
    return "" if low is None or high is None else f"[{low:{sign}.3f}, {high:{sign}.3f}]"


def signed(difference: Difference) -> str:
    """A difference and its interval.

    >>> signed(Difference(0.1, 0.05, 0.15, 0.01, 0.99))
    '+0.100 [+0.050, +0.150]'
    """
    return f"{difference.mean:+.3f} {span(difference.low, difference.high, '+')}".rstrip()


# --- a run: a line of runs.jsonl ------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingHistory:
    """The epochs of one network: losses, and the metric on validation rows, soft and hard."""

    epoch: list[int]
    train_loss: list[float | None]
    validation_loss: list[float | None]
    soft: list[float | None]
    hard: list[float | None]
    phases: list[tuple[str, int]]


@dataclass(frozen=True)
class HeldOut:
    """Class numbers (0 and 1 of labels) and probabilities of test rows."""

    target: list[int] | list[list[int]]
    scores: list[float] | list[list[float]]


@dataclass(frozen=True)
class OperatingPoint:
    """What the tuned threshold of a goal with constraints gave on test rows: its metric, the
    constrained rates, and in how many splits a constraint was not met."""

    metric: float
    rates: dict[str, float]
    broken: int


@dataclass(frozen=True)
class SplitResult:
    """One candidate on one split. Held-out rows are those of the first repeat, epochs and the
    bytes of the model (``size``) those of the first split."""

    score: float
    seconds: float
    threshold: ThresholdValue | None
    predictions: HeldOut | None = None
    history: TrainingHistory | None = None
    size: int | None = None
    operating: OperatingPoint | None = None


@dataclass(frozen=True)
class FitResult:
    """What a fit on a split gives: a result for each of its candidates."""

    candidates: dict[str, SplitResult]
    warnings: list[str]


# --- the comparison -------------------------------------------------------------------------------


@dataclass(frozen=True)
class CandidateResult:
    """One candidate on all splits; ``error`` says why it has no numbers, and is empty else.

    ``size`` is the bytes of its model.
    """

    id: str
    name: str
    family: Family
    stage: StageId
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
    thresholds: list[ThresholdValue] | None
    operating: OperatingPoint | None = None


@dataclass(frozen=True)
class Splits:
    """How the rows were split."""

    folds: int
    repeats: int
    count: int
    test_fraction: float
    duplicates: int
    groups: str | None
    note: str


@dataclass(frozen=True)
class Predictions:
    """Scores of rows that the model did not see, and the median of the folds' thresholds."""

    target: list[int] | list[list[int]]
    scores: list[float] | list[list[float]]
    threshold: ThresholdValue | None
    note: str


@dataclass(frozen=True)
class ClassCount:
    """The rows of a class, or those that have a label."""

    label: str
    rows: int


@dataclass(frozen=True)
class ColumnSummary:
    """A column of the table, as it was read."""

    name: str
    kind: str
    missing: int | None
    values: int | None
    outputs: int | None
    note: str


@dataclass(frozen=True)
class DataSummary:
    """The table: ``used`` rows were split, the winner was refitted on ``refitted`` of them."""

    rows: int
    features: int
    outputs: int
    classes: list[ClassCount]
    columns: list[ColumnSummary]
    notes: list[str]
    file: str | None
    used: int | None = None
    refitted: int | None = None


@dataclass(frozen=True)
class ComparisonSettings:
    """What the candidates were given; ``fits`` says which of them share one."""

    n_networks: int
    patience: int
    max_epochs: int
    trees: int
    min_samples_leaf: int
    cv: int
    repeats: int
    quick: bool
    level: float
    fits: dict[str, list[str]]


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of ``compare``. All but ``model`` is plain data; see ``docs/comparison.md``.

    ``model`` is the refitted winner (``predict``, ``predict_proba``), None after ``from_dict``.

    >>> import softset as ss
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, weights=[0.8], random_state=0)
    >>> result = ss.compare(X, y, "f1", candidates=["linear-tuned", "linear-metric"], n_jobs=1,
    ...                    quick=True)
    >>> result.outcome, len(result.candidates), result.model.predict(X[:2]).shape
    ('stay', 2, (2,))
    >>> Comparison.from_dict(result.to_dict()).verdict == result.verdict
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
    gains: Gains
    candidates: list[CandidateResult]
    splits: Splits
    predictions: dict[str, Predictions]
    history: dict[str, TrainingHistory]
    importances: list[Importance]
    promise: str
    data: DataSummary
    settings: ComparisonSettings
    versions: dict[str, str]
    random_state: int
    command: str
    date: str
    duration: float
    warnings: list[str]
    costs: RowCosts | None
    model: Model | None = field(
        default=None, repr=False, compare=False, metadata={"in_json": False}
    )

    @property
    def label(self) -> str:
        """The metric in running text."""
        return metric_label(self.metric, get_task(self.task))

    def to_dict(self) -> dict[str, JSON]:
        """Everything but the model, for ``json.dump``, with a checksum."""
        return sealed({"format": FORMAT, **encoded(self)})

    @classmethod
    def from_dict(cls, content: Mapping[str, JSON]) -> Comparison:
        """The inverse of ``to_dict``. A ``SavedFileError`` if it is damaged, was changed or has no
        checksum."""
        version = content.get("format") if isinstance(content, dict) else type(content).__name__
        if version != FORMAT:
            raise SavedFileError(
                f"a comparison in format {FORMAT} was expected, got {version!r}. Compare again."
            )
        fields = unsealed(content)
        del fields["format"]
        comparison: Comparison = decoded(cls, fields)
        return comparison

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_dict()`` as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), allow_nan=False)
        write_safely(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Comparison:
        """Read the file that ``save`` wrote; a ``SavedFileError`` if it is another one."""
        data = Path(path).read_bytes()
        with whole(Path(path).name, "comparison"):
            return cls.from_dict(json.loads(data))

    @property
    def positive_line(self) -> str:
        """The positive class of two and its fraction of the rows, in words; else empty."""
        if self.positive is None:
            return ""
        return positive_line(self.positive, self.data.classes[1].rows / self.data.rows)

    def __repr__(self) -> str:
        return f"<Comparison: {self.verdict}>"

    def __str__(self) -> str:
        width = max(len(c.name) for c in self.candidates)
        head = f"{self.label} on test rows"
        lines = [self.verdict, *filter(None, (self.advice, self.positive_line)), ""]
        names = {c.id: c.name for c in self.candidates}
        across = max(len(stage.name) for stage in self.gains.stages)
        for stage in self.gains.stages:
            line = f"{stage.name:{across}}  {stage.mean:6.3f}  {names[stage.choice]:{width}}"
            if stage.gain is not None:
                line += f"  {signed(stage.gain)}  {significance(stage.gain)}"
            lines.append(line.rstrip())
        lines += [self.stages_note(), ""]
        lines.append(f"{head:{width + 2}}  mean  95 % interval      difference")
        for c in self.candidates:
            mark = {self.winner: ">", self.reference: "="}.get(c.id, " ")
            if c.mean is None:
                lines.append(f"{mark} {c.name:{width}}  failed: {c.error}")
                continue
            line = f"{mark} {c.name:{width}} {c.mean:6.3f}  {span(c.low, c.high)}"
            lines.append(f"{line}  {signed(c.difference)}" if c.difference else line)
        lines += ["", f"> winner, = reference; {self.splits.note}"]
        return "\n".join([*lines, *([self.importances_note()] if self.importances else [])])

    def stages_note(self) -> str:
        """How the gains of the stages are measured, and when they are significant."""
        if self.splits.count < 2:
            return "Each stage: the best so far. One split is too few for intervals and p-values."
        return (
            "Each stage: the best so far, chosen on the other splits and scored on this one. "
            f"Significant: adjusted p of at most {LEVEL:g}, by Holm's method over all stages."
        )

    def importances_note(self, most: int = 5) -> str:
        """The columns with the largest permutation importances, in one line."""
        shown = [f"{i.column} ({i.falls:.3f})" for i in self.importances[:most]]
        more = ", …" if len(self.importances) > most else ""
        return f"permutation importances (decrease of {self.label}): {', '.join(shown)}{more}"

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the page of the comparison, an HTML file."""
        # By name: report and plots stand above this subpackage.
        import_module("softset.report").write_report(self, path)

    def plot(self) -> object:
        """Draw the intervals of all candidates; see ``ss.plot.comparison``."""
        return import_module("softset.plot").comparison(self)

    def help(self) -> None:
        """Print what to do with the result."""
        print(_HELP)

    def _repr_html_(self) -> str:
        names = {c.id: c.name for c in self.candidates}
        stages = [
            [s.name, names[s.choice], f"{s.mean:.3f}"]
            + ([signed(s.gain), significance(s.gain)] if s.gain else ["", ""])
            for s in self.gains.stages
        ]
        rows = []
        for c in self.candidates:
            value = "failed" if c.mean is None else f"{c.mean:.3f} {span(c.low, c.high)}"
            rows.append([c.name, value, signed(c.difference) if c.difference else ""])
        bold = [c.id == self.winner for c in self.candidates]
        facts = filter(None, (self.verdict, self.advice, self.positive_line))
        above = "".join(f"<p>{html.escape(text)}</p>" for text in facts)
        above += html_table(["stage", "best so far", self.label, "gain", ""], stages)
        return above + html_table(["", self.label, "difference"], rows, bold)


_HELP = """print(result)                                       # verdict, stages, candidates
result.model.save("model.softset")                  # the winner, refitted on all rows
result.report("report.html")                        # the page
result.plot()                                       # intervals of all candidates"""
