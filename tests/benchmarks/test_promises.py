"""The truth that promises are measured against, and a run that resumes."""

from __future__ import annotations

import numpy as np
import pytest

import promises


@pytest.mark.parametrize("scores", ["true", "distorted", "tied"])
def test_true_rates_are_those_of_many_rows(scores):
    problem = next(p for p in promises.PROBLEMS if p.scores == scores)._replace(
        prevalence=0.3, rows=200_000
    )
    random = np.random.default_rng(0)
    y = random.random(problem.rows) < problem.prevalence
    p = promises.scores_of(problem, random.normal(size=problem.rows) + promises.APART * y)
    for threshold in (0.2, 0.405, 0.7):
        true = promises.true_rates(problem, threshold)
        said = p >= threshold
        assert true["recall"] == pytest.approx(said[y].mean(), abs=0.01)
        assert true["fpr"] == pytest.approx(said[~y].mean(), abs=0.01)
        assert true["precision"] == pytest.approx(y[said].mean(), abs=0.01)


def test_constraints_are_read_and_broken():
    true = promises.rates(0.7, 0.1, 0.5)
    random = np.random.default_rng(0)
    assert promises.broken("precision@recall>=0.8", true, random)
    assert not promises.broken("precision@recall>=0.7&fpr<=0.1", true, random)
    assert promises.broken("recall@alerts<=10/1000", true, random)


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    small = [p._replace(draws=40, rows=300) for p in promises.PROBLEMS[3:4]]
    monkeypatch.setattr(promises, "PROBLEMS", small)
    monkeypatch.setattr(promises, "CONFIDENCES", (0.9,))
    path = tmp_path / "results.jsonl"
    promises.append(path, promises.block_of(small[0], "softset", 0.9, 0))
    first = path.read_text()
    promises.simulated(path, promises.OURS)
    assert path.read_text().startswith(first)
    assert len(promises.read(path)) == 4  # two blocks of two methods
    promises.show(path)
    assert "| recall, 0.9 | softset | 40 |" in capsys.readouterr().out
