"""What ``compare`` found: typed, and the schema of its JSON."""

from __future__ import annotations

import html
from dataclasses import dataclass, field, fields
from typing import Any

from softset.classifiers.model import Model
from softset.metrics.registry import label_of

FORMAT = 1


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found. All but ``model`` is what JSON can hold; see ``docs/comparison.md``.

    ``model`` is the refitted winner (``predict``, ``predict_proba``), None after ``from_dict``.
    """

    metric: str
    task: str
    classes: list[Any]
    positive: Any
    verdict: str
    outcome: str
    winner: str
    reference: str
    candidates: list[dict[str, Any]]
    splits: dict[str, Any]
    predictions: dict[str, Any]
    history: dict[str, Any]
    data: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    seed: int
    command: str
    date: str
    duration: float
    warnings: list[str]
    model: Model | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, for ``json.dump``."""
        names = [f.name for f in fields(self) if f.name != "model"]
        return {"format": FORMAT, **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Comparison:
        """The inverse of ``to_dict``."""
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            got = found.get("format") if isinstance(found, dict) else type(found).__name__
            raise ValueError(f"a comparison in format {FORMAT} was expected, got {got!r}.")
        names = [f.name for f in fields(cls) if f.name != "model"]
        missing = [name for name in names if name not in found]
        if missing:
            raise ValueError(f"the comparison is incomplete: {', '.join(missing)} missing.")
        return cls(**{name: found[name] for name in names})

    def __str__(self) -> str:
        width = max(len(c["name"]) for c in self.candidates)
        head = f"{label_of(self.metric)} on test rows"
        lines = [self.verdict, "", f"{head:{width + 2}}  mean  95 % interval      difference"]
        for c in self.candidates:
            mark = {self.winner: ">", self.reference: "="}.get(c["id"], " ")
            if c["error"]:
                lines.append(f"{mark} {c['name']:{width}}  failed: {c['error']}")
                continue
            line = f"{mark} {c['name']:{width}} {c['mean']:6.3f}  [{c['low']:.3f}, {c['high']:.3f}]"
            if c["difference"]:
                d = c["difference"]
                line += f"  {d['mean']:+.3f} [{d['low']:+.3f}, {d['high']:+.3f}]"
            lines.append(line)
        note = "> winner, = reference (the best that is not trained for the metric)"
        return "\n".join([*lines, "", f"{note}; {self.splits['note']}"])

    def _repr_html_(self) -> str:
        rows = []
        for c in self.candidates:
            d = c["difference"]
            bold = "font-weight:bold" if c["id"] == self.winner else ""
            cells = [
                c["name"],
                "failed" if c["error"] else f"{c['mean']:.3f} [{c['low']:.3f}, {c['high']:.3f}]",
                f"{d['mean']:+.3f} [{d['low']:+.3f}, {d['high']:+.3f}]" if d else "",
            ]
            texts = "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells)
            rows.append(f"<tr style='{bold}'>{texts}</tr>")
        head = f"<tr><th></th><th>{html.escape(label_of(self.metric))}</th><th>difference</th></tr>"
        return f"<p>{html.escape(self.verdict)}</p><table>{head}{''.join(rows)}</table>"
