"""What a customer number was worth is said, in the comparison and wherever it is shown."""

import time

import numpy as np
import pandas as pd
import pytest

import softset as ss
from softset.cli import main
from softset.comparison import identifiers

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*different whole number.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:too good:UserWarning"),
]
QUICK = {"candidates": ["linear-tuned", "linear-metric"], "quick": True, "jobs": 1, "folds": 3}


@pytest.fixture(scope="module")
def leaking():
    """Noise, and a number that was given to the negatives first."""
    rng = np.random.default_rng(0)
    y = (np.arange(240) >= 160).astype(int)
    number = np.where(y, 9000, 1000) + rng.permutation(240)
    frame = pd.DataFrame({"a": rng.normal(size=240), "customer": number, "b": rng.normal(size=240)})
    order = rng.permutation(240)
    return frame.iloc[order].reset_index(drop=True), y[order]


def worth(found):
    return [text for text in found.warnings if "worth" in text]


def test_the_winner_is_measured_without_the_column(leaking):
    frame, y = leaking
    found = ss.compare(frame, y, **QUICK)
    (text,) = worth(found)
    winner = next(c for c in found.candidates if c.id == found.winner)
    own = np.mean(winner.scores[:2])
    assert own > 0.95
    alone = ss.compare(frame.drop(columns="customer"), y, **QUICK)
    other = np.mean(next(c for c in alone.candidates if c.id == found.winner).scores[:2])
    assert other < 0.7
    assert text == (
        f"column 'customer', different in every row, was worth {own - other:+.3f} of F1 to the "
        f"winner: {own:.3f} with it, {other:.3f} without, on the first 2 splits."
    )
    array = ss.compare(frame.to_numpy(float), y, **QUICK)
    assert worth(array) == [text.replace("'customer'", "1")]


def test_nothing_is_said_or_fitted_without_such_a_column(leaking, monkeypatch):
    frame, y = leaking
    monkeypatch.setattr(identifiers, "outcomes", None)  # not called
    assert not worth(ss.compare(frame.drop(columns="customer"), y, **QUICK))
    assert not worth(ss.compare(frame[["customer"]], y, **QUICK))  # there is no other column


def test_a_budget_that_is_spent_is_not_overdrawn(leaking, monkeypatch):
    frame, y = leaking
    monkeypatch.setattr(identifiers, "outcomes", None)
    monkeypatch.setattr(identifiers, "MARGIN", 1e9)
    began = time.monotonic()
    assert not worth(ss.compare(frame, y, budget=5, **QUICK))
    assert time.monotonic() - began < 300


def test_it_is_shown_in_the_terminal_and_in_the_report(leaking, tmp_path, capsys):
    frame, y = leaking
    frame.assign(churn=y).to_csv(tmp_path / "data.csv", index=False)
    command = ["compare", str(tmp_path / "data.csv"), "--target", "churn", "--quick", "--jobs", "1"]
    command += ["--folds", "3", "--candidate", ",".join(QUICK["candidates"])]
    with pytest.raises(SystemExit) as ended:
        main([*command, "-o", str(tmp_path / "out")])
    assert ended.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "'customer', different in every row, was worth +" in said
    assert "different in every row, was worth +" in (tmp_path / "out/report.html").read_text()
