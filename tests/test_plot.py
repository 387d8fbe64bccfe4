"""The pictures show the numbers that they should: values are checked against ``evaluate``."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softset as ss

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("agg")


@pytest.fixture(autouse=True)
def closed():
    """No test leaves figures open: matplotlib warns of many."""
    yield
    matplotlib.pyplot.close("all")


def problem(rows=60, seed=0):
    random = np.random.RandomState(seed)
    y = (random.rand(rows) < 0.3).astype(int)
    scores = np.round(random.randn(rows) + y, 1)  # with ties
    return scores, y


@pytest.mark.parametrize("metric", ["f1", "mcc", "recall", ss.FBeta(2.0)])
def test_the_line_is_the_metric_at_every_threshold(metric):
    scores, y = problem()
    shown = ss.plot.threshold(scores, y, metric)
    assert len(shown.edges) == len(shown.values) + 1
    for tau in np.linspace(0.01, 0.99, 97):
        (k,) = np.nonzero((np.array(shown.edges[:-1]) < tau) & (tau <= np.array(shown.edges[1:])))
        expected = ss.evaluate(scores, y, metric, threshold=tau, from_logits=True)
        assert shown.values[int(k[0])] == pytest.approx(expected, abs=1e-12), tau


def test_the_marks_have_the_values_of_evaluate():
    scores, y = problem()
    shown = ss.plot.threshold(scores, y, "f1", at=0.31)
    assert list(shown.marks) == ["1/2", "best", "given"]
    assert shown.marks["best"][0] == ss.best_threshold(scores, y, "f1", from_logits=True)
    for tau, value in shown.marks.values():
        assert value == pytest.approx(
            ss.evaluate(scores, y, "f1", threshold=tau, from_logits=True), abs=1e-12
        )
    labels = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    assert any(label.startswith("best: ") for label in labels)


def test_weights_count_and_probabilities_of_0_and_1_have_their_place():
    p, y, w = [0.0, 0.4, 0.6, 1.0], [0, 1, 0, 1], [1.0, 3.0, 1.0, 2.0]
    shown = ss.plot.threshold(p, y, "f1", from_logits=False, sample_weight=w)
    assert shown.edges == [0.0, 0.4, 0.6, 1.0]
    for tau, value in zip((0.2, 0.5, 0.8), shown.values, strict=True):
        settings = {"threshold": tau, "from_logits": False, "sample_weight": w}
        assert value == pytest.approx(ss.evaluate(p, y, "f1", **settings), abs=1e-12)


def test_a_million_rows_make_a_small_picture_with_the_best_in_it():
    random = np.random.RandomState(1)
    y = (random.rand(200_000) < 0.1).astype(int)
    shown = ss.plot.threshold(random.randn(200_000) + y, y, "f1")
    assert len(shown.values) <= 2003
    assert max(shown.values) == pytest.approx(shown.marks["best"][1], abs=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "auroc"}, "over all thresholds"),
        ({"at": 1.5}, "at must be in"),
        ({"target": [0, 2, 1]}, "target must hold 0 and 1"),
        ({"scores": [float("nan"), 0.0, 1.0]}, "NaN"),
    ],
)
def test_bad_arguments_of_threshold_are_named(change, message):
    arguments = {"scores": [0.0, 1.0, 2.0], "target": [0, 1, 1], "metric": "f1"} | change
    with pytest.raises(ValueError, match=message):
        ss.plot.threshold(**arguments)


def test_steps_are_drawn_at_their_threshold():
    own = ss.LinearStep.at_temperature(0.05)
    shown = ss.plot.steps(own, ss.HardStep(), threshold=0.3)
    assert shown.ax_.get_xlim() == (0, 1)
    degrees = dict(zip(shown.probabilities, shown.curves["HardStep()"], strict=True))
    assert {d for p, d in degrees.items() if p < 0.3} == {0.0}
    assert {d for p, d in degrees.items() if p > 0.3} == {1.0}
    p = torch.tensor(shown.probabilities, dtype=torch.float64)
    assert shown.curves[repr(own)] == own(p, 0.3).tolist()


def test_a_step_of_the_users_own_has_its_name():
    def squared(p, tau):
        return p**2

    assert list(ss.plot.steps(squared).curves) == ["squared"]
    with pytest.raises(ValueError, match="step must be"):
        ss.plot.steps("linear")
    with pytest.raises(ValueError, match="threshold must be in"):
        ss.plot.steps(threshold=0)


def history(epochs=4, metric=True):
    known = [0.1 * e for e in range(epochs)] if metric else [None] * epochs
    return {
        "phase": [int(e >= 2) for e in range(epochs)],
        "loss": [1.0] * epochs,
        "validation_loss": known,
        "validation_metric": known,
        "validation_soft": known,
        "temperature": [None] * epochs,
    }


def lines(shown):
    return {line.get_label(): list(line.get_ydata()) for line in shown.ax_.get_lines()}


def test_a_training_has_its_curves_and_phases():
    shown = ss.plot.training(history())
    drawn = lines(shown)
    assert drawn["metric, validation rows"] == [0.0, 0.1, 0.2, pytest.approx(0.3)]
    assert drawn["training loss"] == [1.0] * 4
    assert shown.phases == [(0, 3)]


def test_several_networks_share_an_entry_of_the_legend():
    shown = ss.plot.training([history(), history(3)])
    texts = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    assert len(texts) == 3
    assert len(shown.ax_.get_lines()) == 6 + 2  # and a dotted line each


def test_a_training_without_validation_rows_has_its_loss():
    assert set(lines(ss.plot.training(history(2, metric=False)))) == {"training loss"}


@pytest.mark.parametrize("bad", [{"loss": [1.0]}, [], [history(0)], [3], history(0)])
def test_what_is_no_history_is_refused(bad):
    with pytest.raises(ValueError, match="history must"):
        ss.plot.training(bad)


@pytest.fixture(scope="module")
def found():
    random = np.random.RandomState(0)
    X = random.randn(200, 3)
    y = (X[:, 0] + random.randn(200) > 1).astype(int)
    return ss.compare(
        X, y, "f1", candidates=["linear-tuned", "linear-metric"], n_jobs=1, quick=True
    )


def test_a_comparison_shows_every_candidate_against_the_reference(found):
    shown = ss.plot.comparison(found)
    labels = [text.get_text() for text in shown.ax_.get_yticklabels()]
    assert labels == [f"{c.name}  {c.mean:.3f}" for c in found.candidates]
    (other,) = [c for c in found.candidates if c.difference]
    ends = [list(line.get_xdata()) for line in shown.ax_.get_lines()]
    assert [other.difference.low, other.difference.high] in ends
    assert found.verdict.split()[0] in shown.ax_.get_title()


def test_a_comparison_must_be_one():
    with pytest.raises(ValueError, match="result must be what compare returns, got dict"):
        ss.plot.comparison({})


def test_a_display_draws_on_the_axes_it_is_given(found):
    figure, axes = matplotlib.pyplot.subplots(2, 2)
    displays = [
        ss.plot.steps(ax=axes[0, 0]),
        ss.plot.threshold(*problem(), "f1", ax=axes[0, 1]),
        ss.plot.training(history(), ax=axes[1, 0]),
        ss.plot.comparison(found, ax=axes[1, 1]),
    ]
    assert [shown.ax_ for shown in displays] == list(axes.flat)
    assert all(shown.figure_ is figure for shown in displays)
    again = displays[0].plot()
    assert again.figure_ is not figure
