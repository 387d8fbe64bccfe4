"""Commands run in this process, each once, and files whose truth is known without them."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn.metrics as sk

from softset import cli

NO, YES = "no", "sí"  # the second needs an encoding
OTHERS = "who,other,w,v"  # columns of rows.csv that a model of two by x leaves out


@dataclass
class Ran:
    """A command that ended: its exit code, what it printed, and the directory it ran in."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def json(self) -> Any:
        """What ``--json`` printed."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def files(self) -> list[str]:
        """The names of what the command wrote."""
        return sorted(path.name for path in self.folder.iterdir())


class Box:
    """Files in ``home``, and commands on them, each in a directory of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._ran: dict[tuple[str, ...], Ran] = {}
        self.rows = _rows(160)
        self.scored = _scored(300)
        self.rows.to_csv(home / "rows.csv", index=False)
        self.scored.to_csv(home / "scored.csv", index=False)

    def __call__(self, *arguments: Any, folder: Path | None = None) -> Ran:
        """Run a command, unless these arguments have been run; always in a ``folder`` given."""
        words = tuple(map(str, arguments))
        if folder is not None:
            return self._run(words, folder)
        if words not in self._ran:
            self._ran[words] = self._run(words, self.folder())
        return self._ran[words]

    def folder(self) -> Path:
        """A new directory."""
        path = self.home / f"{len(list(self.home.iterdir()))}"
        path.mkdir()
        return path

    def _run(self, words: tuple[str, ...], folder: Path) -> Ran:
        out, err, code = io.StringIO(), io.StringIO(), None
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("always")  # a warning is a line, as for a user
            try:
                cli.main(words)
            except SystemExit as stop:
                code = stop.code
        assert isinstance(code, int)
        return Ran(code, out.getvalue(), err.getvalue(), folder)

    def train(self, *more: Any, drop: str = OTHERS, target: str = "two") -> Ran:
        """A linear model of ``two`` by ``x``."""
        words = ["-t", target, *(["--drop", drop] if drop else []), *more, "--json"]
        recipe = [] if "--recipe" in more else ["--recipe", "linear-tuned"]
        return self("train", self.home / "rows.csv", *recipe, *words)

    def model(self, *more: Any, **options: str) -> Path:
        """The file of such a model."""
        ran = self.train(*more, **options)
        return ran.folder / ran.json["model"]

    def evaluate(self, *more: Any, file: Any = None) -> dict[str, dict[str, Any]]:
        """What ``evaluate`` has for each metric."""
        found = self("evaluate", file or self.home / "scored.csv", *more, "--json").json
        return {row["metric"]: row for row in found["metrics"]}

    def tune(self, *more: Any, file: Any = None) -> Any:
        """What ``tune-threshold`` found."""
        return self("tune-threshold", file or self.home / "scored.csv", *more, "--json").json

    def explain(self, *more: Any) -> Any:
        """What ``explain`` says of the model of ``x`` and ``v``."""
        model = self.model(drop="who,other,w")
        return self("explain", model, self.home / "rows.csv", *more, "--json").json

    def predicted(self, model: Path, file: Path, *more: Any) -> pd.DataFrame:
        """The predictions that ``predict`` wrote."""
        ran = self("predict", model, file, *more, "--json")
        return pd.read_csv(ran.folder / ran.json["output"])

    def compare(
        self, *more: Any, drop: str = OTHERS, target: str = "two", file: Any = None
    ) -> Comparing:
        """A small comparison: one fit in each of two splits, unless ``more`` says otherwise."""
        usual = {"--candidate": "linear,linear-tuned", "--jobs": "1", "--cv": "2"}
        usual |= {"--repeats": "1"} if "--quick" not in more else {}
        words = [w for pair in usual.items() if pair[0] not in more for w in pair]
        words += ["--drop", drop, *more, "--json"]
        return Comparing(self("compare", file or self.home / "rows.csv", "-t", target, *words))


class Comparing:
    """A comparison by what it left behind."""

    def __init__(self, ran: Ran) -> None:
        self.ran, self.facts = ran, ran.json
        if isinstance(self.facts, list):  # of several metrics, one each
            return
        self.folder = ran.folder / self.facts["output"]
        lines = (self.folder / "runs.jsonl").read_text().splitlines()[1:]
        self.runs = [json.loads(line)["result"]["candidates"] for line in lines]

    def splits(self, candidate: str = "linear-tuned") -> list[tuple[Any, Any, float]]:
        """Targets, decisions and the score of every split."""
        found = [run[candidate] for run in self.runs]
        assert self.facts["splits"]["count"] == len(found)
        return [
            (
                np.array(run["predictions"]["target"]),
                np.array(run["predictions"]["scores"]) >= run["threshold"],
                run["score"],
            )
            for run in found
            if run["predictions"] is not None  # those of the first repeat are kept
        ]


def _rows(n: int) -> pd.DataFrame:
    """``two`` depends on ``x``, ``other`` on it the other way round, nothing on ``v``."""
    g = np.random.default_rng(1)
    x = g.permutation(np.linspace(-2, 2, n)).round(4)
    z = x + g.normal(scale=0.6, size=n)
    return pd.DataFrame(
        {
            "x": x,
            "v": g.normal(size=n).round(4),
            "who": [f"ø{i // 4}" for i in g.permutation(n)],
            "w": g.integers(0, 4, n),
            "two": np.where(z > 0.6, YES, NO),
            "other": np.where(z > 0, "low", "top"),
        }
    )


def _scored(n: int) -> pd.DataFrame:
    """Probabilities of ``y`` as ``predict`` writes them, others, and logits; ``t`` is a second
    target, ``a`` and ``b`` are labels, ``c`` has three classes."""
    g = np.random.default_rng(2)
    z = g.normal(-1.2, 1.5, n).round(6)
    true = g.random(n) < 1 / (1 + np.exp(-z))
    p = (1 / (1 + np.exp(-z))).round(6)
    frame = pd.DataFrame({"p_no": 1 - p, f"p_{YES}": p, "z": z, "q": np.sqrt(p).round(6)})
    frame["u"] = g.normal(0, 2, n).round(6)
    frame["prediction"] = np.where(p >= 0.2, YES, NO)
    frame["y"] = np.where(true, YES, NO)
    frame["t"] = np.where(g.random(n) < p, "on", "off")
    return frame.assign(p_on=p, p_off=1 - p)


METRICS = {
    "f1": lambda y, d, p: sk.f1_score(y, d),
    "mcc": lambda y, d, p: sk.matthews_corrcoef(y, d),
    "recall": lambda y, d, p: sk.recall_score(y, d),
    "accuracy": lambda y, d, p: sk.accuracy_score(y, d),
    "auroc": lambda y, d, p: sk.roc_auc_score(y, p),
}


def best(y: Any, p: Any, metric: str) -> float:
    """The best F1 or MCC over all thresholds, by trying them."""
    y, p = np.asarray(y, dtype=float), np.asarray(p)
    decided = (p >= np.unique(p)[:, None]).astype(float)
    tp, predicted = decided @ y, decided.sum(1)
    if metric == "f1":
        return float((2 * tp / (predicted + y.sum())).max())
    spread = np.sqrt(predicted * (len(y) - predicted) * y.sum() * (len(y) - y.sum()))
    return float(((len(y) * tp - predicted * y.sum()) / np.where(spread > 0, spread, 1)).max())
