"""``watch``: promises, expectations and scores of a model over time."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta
from sklearn.metrics import f1_score

import softset as ss
from softset.decisions.shift import ShiftWarning
from softset.report.watch import render_watch

LOOK = np.arange(4000) // 100


def rows(n, seed, fall=0.0):
    random = np.random.default_rng(seed)
    y = (random.random(n) < 0.25).astype(int)
    x = random.normal(size=(n, 2))
    x[:, 0] += (2.5 - fall * (np.arange(n) >= n // 2)) * y
    return pd.DataFrame(x, columns=["a", "b"]), np.where(y == 1, "yes", "no").astype(object)


@pytest.fixture(scope="module")
def model():
    x, y = rows(3000, 0)
    goal = "precision@recall>=0.8"
    return ss.train_model(x, y, goal, recipe="linear-tuned", confidence=0.95, path=())


def test_a_broken_promise_is_dated(model):
    x, y = rows(4000, 1, fall=1.2)
    found = ss.watch(model, x, y, time=LOOK)
    (broken,) = found.broken
    assert broken.promised
    assert abs(broken.since - 20) <= 1
    assert found.verdict.startswith("The promise of recall >= 0.8 is broken since")
    assert found.drift.since is not None
    assert found.to_dict()["verdict"] == found.verdict
    # Rows, hits and the goal, counted apart.
    said, true = model.predict(x) == "yes", y == "yes"
    assert broken.rows == [int(true[t == LOOK].sum()) for t in range(40)]
    assert broken.hits == [int((true & said)[t == LOOK].sum()) for t in range(40)]
    precision = [true[said & (t == LOOK)].mean() for t in range(40)]
    np.testing.assert_allclose(found.goal_values, precision)
    assert all(
        a <= v <= b for a, v, b in zip(found.goal_low, precision, found.goal_high, strict=True)
    )


def test_a_promise_that_holds_again_is_no_longer_called_broken(model):
    x, y = rows(4000, 1, fall=1.2)
    later, labels = rows(4000, 5)
    x, y = pd.concat([x, later], ignore_index=True), np.append(y, labels)
    found = ss.watch(model, x, y, time=np.arange(8000) // 100)
    recall = next(r for r in found.rates if r.promised)
    assert not found.broken
    assert abs(recall.episodes[0].until - 40) <= 2
    assert f"since {recall.episodes[0].until} recall is better" in found.verdict
    assert "while broken" in str(found)
    assert "better since" in render_watch(found)


def test_nothing_is_said_of_what_holds_and_late_labels_are_left_out(model):
    x, y = rows(4000, 2)
    y[3000:] = None
    found = ss.watch(model, x, y, time=LOOK)
    assert not found.broken
    assert found.drift.found is None
    assert sum(found.labeled) == 3000
    assert found.shift.low[0] <= 0.25 <= found.shift.high[0]
    assert abs(found.expected - (y[:3000] == "yes")[model.predict(x[:3000]) == "yes"].mean()) < 0.05


def test_without_labels_only_scores_are_watched(model):
    x, _ = rows(4000, 3, fall=1.5)
    found = ss.watch(model, x, time=LOOK)
    assert not found.rates
    assert abs(found.drift.since - 20) <= 3
    assert "scores differ from those of training" in str(found)


def test_without_a_promise_it_is_what_training_led_to_expect():
    x, y = rows(3000, 0)
    plain = ss.train_model(x, y, "f1", recipe="linear-tuned", path=())
    new, labels = rows(4000, 1, fall=1.2)
    broken = ss.watch(plain, new, labels, time=LOOK).broken
    assert {r.name for r in broken} >= {"recall"}
    assert not any(r.promised for r in broken)


def test_few_rows_and_bad_input(model):
    x, y = rows(4000, 4)
    assert "no rows to tell" in str(ss.watch(model, x[:1], np.array(["no"]), time=[1]))
    negatives = ss.watch(model, x[y == "no"], y[y == "no"], time=LOOK[y == "no"])
    assert not [r for r in negatives.broken if r.name == "recall"]
    with pytest.raises(ValueError, match="one label for each of 4000 rows"):
        ss.watch(model, x, y[:5], time=LOOK)
    with pytest.raises(ValueError, match="maybe"):
        ss.watch(model, x[:2], ["yes", "maybe"], time=[1, 2])
    with pytest.raises(ValueError, match="alpha"):
        ss.watch(model, x, y, time=LOOK, alpha=1.5)


def test_several_classes_and_labels():
    random = np.random.default_rng(0)
    x = random.normal(size=(1500, 2))
    y = (x[:, 0] > 0.5).astype(int) + (x[:, 1] > 0)
    classes = ss.MetricLinearClassifier("f1_macro", path=()).fit(x[:1000], y[:1000])
    found = ss.watch(classes, x[1000:], y[1000:], time=LOOK[:500])
    assert [r.name for r in found.rates] == ["accuracy", *(f"recall of {k}" for k in range(3))]
    labels = np.column_stack([y > 0, y > 1]).astype(int)
    several = ss.MetricLinearClassifier("f1_macro", path=()).fit(x[:1000], labels[:1000])
    found = ss.watch(several, x[1000:], labels[1000:], time=LOOK[:500])
    assert [r.name for r in found.alerts] == ["alerts of 0", "alerts of 1"]
    assert found.expected is None or 0 < found.expected <= 1


# --- all of it, one look and one rate at a time ---------------------------------------------------

GOALS = {
    "binary": {"metric": "f1"},
    "alerts": {"metric": "recall@alerts<=60/200", "confidence": 0.7},
    "rows at hand": {"metric": "recall@alerts<=150", "confidence": 0.7},
    "labels": {"metric": "f1"},
    "multiclass": {"metric": "f1"},
}


@pytest.mark.parametrize("positive", ["first", "last"])
@pytest.mark.parametrize("kind", GOALS)
def test_every_number_is_that_of_plain_loops(kind, positive):
    """Looks of several sizes, a third of the labels not known yet."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 3))
    noisy = x + 0.8 * rng.normal(size=x.shape)
    names = ["a", "b", "c"] if kind == "multiclass" else ["b", "a"]
    names = names[::-1] if positive == "first" else names
    codes = noisy.argmax(1) if len(names) > 2 else (noisy[:, 0] < 0.7) * 1
    y = np.array(names, dtype=object)[codes]
    if kind == "labels":
        y = (noisy[:, :2] > [0.5, 0.9]).astype(object)
        y = y[:, ::-1] if positive == "first" else y
    settings = {"pos_label": names[0]} if len(names) == 2 and kind != "labels" else {}
    model = ss.MetricLinearClassifier(path=(), **GOALS[kind], **settings)
    model.fit(x[:500], y[:500].astype(int if kind == "labels" else str))
    new, truth = x[500:], y[500:].copy()
    look, known = np.sort(rng.integers(0, 7, 400)), rng.random(400) < 0.67
    truth[~known] = None
    found = ss.watch(model, new, truth, time=look, alpha=0.1)

    decided = model.predict(new)
    assert found.rows == [int((look == t).sum()) for t in range(7)]
    assert found.labeled == [int((look[known] == t).sum()) for t in range(7)]
    if kind == "multiclass":
        columns = [(None, None)] + [(decided == c, truth == c) for c in sorted(names)]
    elif kind == "labels":
        columns = [(decided[:, k] == 1, truth[:, k] == 1) for k in range(2)]
    else:
        columns = [(decided == names[0], truth == names[0])]
    rates, tested = {r.name: r for r in found.rates}, 0
    for k, (said, is_it) in enumerate(columns):
        if kind == "multiclass":
            name = "accuracy" if said is None else f"recall of {sorted(names)[k - 1]}"
            right = decided == truth
            of = {name: (known if said is None else is_it, right)}
        else:
            end = f" of {k}" if kind == "labels" else ""
            of = {f"recall{end}": (is_it, said), f"precision{end}": (said, is_it)}
            of |= {"alerts": (np.ones(400, bool), said)} if model.promise_ else {}
        for name, (rows, hit) in of.items():
            rate = rates.pop(name)
            assert rate.rows == [int((rows & known & (look == t)).sum()) for t in range(7)], name
            hits = [int((rows & hit & known & (look == t)).sum()) for t in range(7)]
            assert rate.hits == hits, name
            tested += rate.bound is not None
            if kind in ("binary", "labels"):  # the lower end of what out-of-fold scores have
                scores = model.oof_scores_.reshape(500, -1)[:, k]
                true = y[:500] == names[0] if kind == "binary" else y[:500, k] == 1
                flagged = scores >= model.decision_.logit.reshape(-1)[k]
                of_rows = true if name.startswith("recall") else flagged
                count, total = (true & flagged).sum(), of_rows.sum()
                low = beta.ppf(0.025, count, total - count + 1)
                assert rate.bound == pytest.approx(low, abs=0.015), name
    assert not rates
    if model.promise_:
        of = 200 if kind == "alerts" else 500
        wanted = {"alerts": 60 / of} if kind == "alerts" else {"alerts": 150 / of}
        assert {r.name: r.bound for r in found.rates if r.promised} == pytest.approx(wanted)
    for rate in found.rates:  # all tests, and all looks, share the level
        for t in range(7):
            n, hits, level = rate.rows[t], rate.hits[t], 0.1 / max(1, tested) / (t + 1) / (t + 2)
            if 0 < hits < n:
                ends = beta.ppf(
                    [level / 2, 1 - level / 2], [hits, hits + 1], [n - hits + 1, n - hits]
                )
                assert [rate.low[t], rate.high[t]] == pytest.approx(list(ends)), rate.name
    average = {"binary": "binary", "labels": "macro", "multiclass": "macro"}.get(kind)
    for t in range(7):
        at = known & (look == t)
        if kind in GOALS and average:
            given = {"pos_label": names[0]} if kind == "binary" else {}
            actual = truth[at].astype(int if kind == "labels" else str)
            wanted = f1_score(actual, decided[at], average=average, zero_division=0, **given)
            assert found.goal_values[t] == pytest.approx(wanted)
    assert len(found.alerts) == {"multiclass": 0, "labels": 2}.get(kind, 1)
    for k, rate in enumerate(found.alerts):
        said = columns[k][0]
        assert rate.hits == [int((said & (look == t)).sum()) for t in range(7)]
        assert rate.rows == found.rows
        scores = model.oof_scores_.reshape(500, -1)[:, k]
        flagged = (scores >= model.decision_.logit.reshape(-1)[k]).mean()
        assert rate.bound == pytest.approx(flagged, abs=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShiftWarning)
        recent = model.adapt(new[look >= 6]).shift_
    assert found.shift.after == pytest.approx(recent.after)
    assert found.shift.rows == (look >= 6).sum()
