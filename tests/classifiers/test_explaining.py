from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import softset as ss
from softset.classifiers.explaining import (
    Importance,
    explain_row,
    permutation_importances,
    worst_mistakes,
)
from softset.classifiers.model import train_model


def mixed(n=600, seed=0):
    """A category decides with a number; the third column is noise."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "noise": random.normal(size=n),
            "city": random.choice(["Rome", "Oslo", "Bern"], n),
            "age": random.normal(size=n),
        }
    )
    score = frame["age"] + 3 * (frame["city"] == "Rome")
    return frame, np.where(score > 2, "yes", "no")


@pytest.fixture(scope="module")
def model():
    return train_model(*mixed(), recipe="linear-tuned", pos_label="yes")


def test_what_decides_matters_and_noise_does_not(model):
    frame, y = mixed(seed=1)
    found = {i.column: i for i in permutation_importances(model, frame, y)}
    assert list(found) == ["city", "age", "noise"]
    assert found["city"].falls > 0.2
    assert abs(found["noise"].falls) < 0.03


def test_an_importance_is_what_the_metric_loses_when_a_column_is_shuffled():
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 2))
    y = (x[:, 0] > 0.5).astype(int)
    model = ss.MetricLinearClassifier("f1").fit(x, y)
    found = permutation_importances(model, x, y, repeats=3, random_state=5)
    draws = np.random.default_rng(5)
    falls = []
    for _ in range(3):
        moved = x.copy()
        moved[:, 0] = x[draws.permutation(300), 0]
        falls.append(model.score(x, y) - model.score(moved, y))
    assert found[0] == Importance("0", pytest.approx(np.mean(falls)), pytest.approx(np.std(falls)))


def test_shuffling_leaves_the_table_as_it_was(model):
    frame, y = mixed(seed=1)
    before = frame.copy()
    permutation_importances(model, frame, y, repeats=1)
    pd.testing.assert_frame_equal(frame, before)


def test_a_classifier_of_categories_is_explained_too():
    frame, y = mixed(200)
    frame["city"] = frame["city"].astype("category")
    model = ss.MetricBoostingClassifier("f1", random_state=0).fit(frame, y)
    assert permutation_importances(model, frame, y, repeats=1)[0].column == "city"
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_many_rows_are_drawn_from(model):
    frame, y = mixed(seed=1)
    few = permutation_importances(model, frame, y, most_rows=50, repeats=1)
    assert few != permutation_importances(model, frame, y, repeats=1)


@pytest.mark.parametrize("pos_label", ["yes", "no"])
def test_a_wrong_label_is_the_worst_mistake(pos_label):
    frame, y = mixed()
    model = train_model(frame, y, recipe="linear-tuned", pos_label=pos_label)
    sure = int(np.argmax(model.predict_proba(frame)[:, list(model.classes_).index("yes")]))
    y[sure] = "no"
    worst = worst_mistakes(model, frame, y)[0]
    assert (worst.row, worst.truth, worst.predicted) == (sure, "no", "yes")
    assert worst.margin > 0


def test_mistakes_are_all_wrong_rows_in_order(model):
    frame, y = mixed(seed=1)
    found = worst_mistakes(model, frame, y, most=10_000)
    assert {m.row for m in found} == set(np.flatnonzero(model.predict(frame) != y))
    assert [m.margin for m in found] == sorted((m.margin for m in found), reverse=True)


def test_mistakes_of_several_classes_and_labels():
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2))
    y = (x[:, 0] > 0).astype(int) + (x[:, 0] > 1)
    model = ss.MetricLinearClassifier("f1").fit(x, y)
    y[int(x[:, 0].argmax())] = 0
    worst = worst_mistakes(model, x, y)[0]
    assert (worst.row, worst.truth, worst.predicted) == (int(x[:, 0].argmax()), 0, 2)
    labels = np.column_stack([x[:, 0] > 0, x[:, 1] > 0]).astype(int)
    model = ss.MetricLinearClassifier("f1").fit(x, labels)
    labels[int(x[:, 1].argmax()), 1] = 0
    worst = worst_mistakes(model, x, labels)[0]
    assert worst.row == int(x[:, 1].argmax())
    assert worst.truth[1] == 0
    assert worst.predicted[1] == 1


def test_a_forest_keeps_its_importances_in_its_file(tmp_path):
    x = np.random.default_rng(0).normal(size=(100, 3))
    y = (x[:, 1] > 0).astype(int)
    forest = RandomForestClassifier(10, random_state=0)
    model = ss.MetricThresholdClassifier(forest, "f1", cv="oob").fit(x, y)
    model.save(tmp_path / "m")
    loaded = ss.MetricThresholdClassifier.load(tmp_path / "m")
    importances = loaded.estimator_.feature_importances_
    assert importances.argmax() == 1
    assert importances.tolist() == model.estimator_.feature_importances_.tolist()


def test_bad_arguments(model):
    frame, y = mixed(20)
    with pytest.raises(ValueError, match="one label for each of 20 rows, got 19"):
        permutation_importances(model, frame, y[:19])
    with pytest.raises(ValueError, match="repeats"):
        permutation_importances(model, frame, y, repeats=0)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
def test_mistakes_are_ordered_by_what_is_most_wrong_in_a_row(task):
    """Of labels by the one that is most wrong, however many are; whichever class is positive."""
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 3))
    z = x + random.normal(size=x.shape)
    y = {
        "binary": np.where(z[:, 0] > 0.5, "few", "many"),
        "multiclass": np.array(["a", "b", "c"])[z.argmax(1)],
        "multilabel": (z > [0, 0.5, 1]).astype(int),
    }[task]
    first = {"pos_label": "few"} if task == "binary" else {}
    model = ss.MetricLinearClassifier(path=(), cv=2, **first).fit(x, y)
    margin, decided = model.decision_function(x), model.predict(x)
    names = list(model.classes_)
    wrong_by = np.zeros(200)
    for i in range(200):
        if task == "multilabel":
            wrong_by[i] = max(abs(margin[i]) * (decided[i] != y[i]))
        elif task == "multiclass":
            wrong_by[i] = margin[i].max() - margin[i, names.index(y[i])]
        else:
            wrong_by[i] = abs(margin[i]) * (decided[i] != y[i])
    found = worst_mistakes(model, x, y, most=25)
    wanted = np.argsort(-wrong_by, kind="stable")[:25]
    assert [m.row for m in found] == wanted.tolist()
    np.testing.assert_allclose([m.margin for m in found], wrong_by[wanted])
    for m in found:
        assert np.array_equal(m.truth, y[m.row])
        assert np.array_equal(m.predicted, decided[m.row])


def test_columns_that_are_left_out_take_no_place():
    """A constant column before the one that decides, and a category after it."""
    frame, y = mixed(300)
    frame.insert(0, "same", 1)
    frame = frame[["noise", "same", "age", "city"]]
    with pytest.warns(UserWarning, match="'same' is constant"):
        model = train_model(frame, y, recipe="linear-tuned", pos_label="yes")
    found = {i.column: i.falls for i in permutation_importances(model, frame, y, repeats=2)}
    assert set(found) == {"noise", "age", "city"}
    assert min(found["age"], found["city"]) > 0.1 > abs(found["noise"])


# --- one row --------------------------------------------------------------------------------------


def table(n=200):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": random.normal(50, 10, n),
            "city": random.choice(["Rome", "Oslo", "Bern"], n),
            "noise": random.normal(size=n),
        }
    )
    y = np.where(frame["age"] + 8 * (frame["city"] == "Oslo") > 60, "yes", "no")
    return frame, y


def test_contributions_of_a_linear_model_add_up_to_its_score():
    frame, y = table()
    model = ss.train_model(frame, y, recipe="linear-tuned")
    for row in (0, 7):
        found = explain_row(model, frame, row)
        assert found.exact
        assert found.base + sum(c.adds for c in found.contributions) == pytest.approx(found.score)
        p = model.predict_proba(frame)[row, 1]
        assert found.score == pytest.approx(np.log(p / (1 - p)))
        assert found.predicted == model.predict(frame)[row]
        assert {c.column for c in found.contributions} == set(frame.columns)
        assert {c.column: c.value for c in found.contributions} == frame.iloc[row].to_dict()
        assert found.contributions[-1].column == "noise"


@pytest.mark.parametrize("recipe", ["forest-tuned", "boosting-tuned"])
def test_contributions_of_other_models_are_what_the_score_loses(recipe):
    frame, y = table()
    model = ss.train_model(frame, y, recipe=recipe)
    row = int(np.argmax(frame["age"]))
    found = explain_row(model, frame, row)
    assert not found.exact
    assert found.contributions[0].column == "age"
    assert found.contributions[0].adds > 0
    swapped = frame.drop(index=row).assign(noise=0.0)
    swapped["age"], swapped["noise"] = swapped["age"], frame["noise"][row]
    swapped["city"] = frame["city"][row]
    p = model.predict_proba(swapped)[:, 1]
    if recipe == "boosting-tuned":  # forests smooth their fractions of trees
        lost = found.score - np.mean(np.log(p / (1 - p)))
        assert found.contributions[0].adds == pytest.approx(lost, rel=1e-6)


def test_a_row_is_explained_by_the_class_that_is_predicted():
    """Offsets may decide against the largest probability."""
    x = np.random.default_rng(0).normal(size=(90, 3))
    model = ss.MetricLinearClassifier("f1", path=()).fit(x, x.argmax(1))
    moved = model.with_threshold([0.0, 4.0, 0.0])
    p, decided = model.predict_proba(x), moved.predict(x)
    rows = np.flatnonzero(decided != p.argmax(1))[:3]
    assert len(rows) == 3
    for row in rows:
        found = explain_row(moved, x, int(row))
        assert (found.predicted, found.probability) == (decided[row], pytest.approx(p[row, 1]))
        assert found.score == pytest.approx(np.log(p[row, 1]))
        assert found.base == pytest.approx(np.log(np.delete(p[:, 1], row)).mean())


def test_a_summary_names_the_columns_of_the_table():
    frame, y = table()
    text = ss.train_model(frame, y, recipe="linear-tuned").summary()
    assert text.startswith("positive: yes, ")
    page = text._repr_html_()
    assert page.startswith("<p>positive: yes, ")
    assert "<th>standardized</th>" in page
    assert "city=Oslo" in text or "city" in text
    assert "x0" not in text


def test_a_scorecard_explains_its_points():
    frame, y = table()
    card = ss.MetricLinearClassifier("f1").fit(frame[["age", "noise"]], y).scorecard()
    rows = card.explain(frame[["age", "noise"]])
    assert [sum(line.points for line in row) for row in rows] == card.points(frame).tolist()


def test_what_cannot_be_explained_is_refused():
    x = np.random.default_rng(0).normal(size=(60, 2))
    several = ss.MetricLinearClassifier("f1").fit(x, (x > 0).astype(int))
    with pytest.raises(ValueError, match="multilabel"):
        explain_row(several, x, 0)
    one = ss.MetricLinearClassifier("f1").fit(x, x[:, 0] > 0)
    with pytest.raises(ValueError, match="row must be"):
        explain_row(one, x, 60)
