"""Labels as users have them: which class of two is the positive one, decided in one place."""

from __future__ import annotations

import decimal
import warnings

import numpy as np
import pandas as pd
import pytest

import softset as ss
from softset.comparison.data import check_dataset
from softset.tables.labels import PositiveClassWarning, SpellingWarning, read_labels
from softset.tables.streams import ClassCounts


def positive(*names, rare=0.03):
    """The positive class of two, of which the first has the fraction ``rare`` of the rows."""
    count = round(1000 * rare)
    y = np.array([names[0]] * count + [names[1]] * (1000 - count), dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositiveClassWarning)
        labels, codes = read_labels(y)
    assert labels.classes.tolist() == sorted(names)  # as scikit-learn has them
    assert (labels.decode(codes) == y).all()
    return labels.names[1]


@pytest.mark.parametrize("rare", [0.03, 0.5, 0.97])
@pytest.mark.parametrize(
    ("yes", "no"),
    [
        (1, 0),
        (1, -1),
        (2, 1),
        (True, False),
        ("1", "0"),
        ("10", "9"),
        ("ja", "nein"),
        ("Yes", "No"),
        ("sí", "no"),
        ("fraud", "ok"),
        ("NOK", "OK"),
        ("churn", "stay"),
        ("defect", "good"),
        ("true", "false"),
    ],
)
def test_numbers_and_words_for_yes_are_positive_however_rare(yes, no, rare):
    assert positive(yes, no, rare=rare) == yes


def test_of_other_names_the_rarer_class_is_positive():
    assert positive("a", "b") == "a"
    assert positive("b", "a") == "b"
    assert positive("a", "b", rare=0.39) == "a"


def test_of_classes_that_are_equally_frequent_the_last_is_positive_with_a_warning():
    for rare in (0.4, 0.5, 0.6):
        y = ["a"] * round(100 * rare) + ["b"] * round(100 - 100 * rare)
        with pytest.warns(PositiveClassWarning, match="pos_label='b' or pos_label='a'"):
            assert read_labels(y)[0].names[1] == "b"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read_labels(y, pos_label="a")[0].names[1] == "a"


def test_a_positive_class_of_nearly_all_rows_warns_unless_it_was_asked_for():
    y = np.array([1] * 90 + [0] * 10)
    with pytest.warns(PositiveClassWarning, match="positive: 1, 90 % of rows.*pos_label=0"):
        read_labels(y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_labels(y, pos_label=1)


def test_streams_decide_by_all_blocks():
    counts = ClassCounts()
    counts.add(np.array(["a", "a", "b"]), np.ones(3))  # the first block alone would say b
    counts.add(np.array(["b"] * 7), np.ones(7))
    assert counts.labels().names[1] == "a"
    assert counts.labels().summary == "positive: a, 20 % of rows"


def data(rare="ja", common="nein", rows=400):
    x = np.random.default_rng(0).normal(size=(rows, 3))
    y = np.where(x[:, 0] > 1.3, rare, common)
    return x, y


def test_classifiers_are_scored_on_the_rarer_class():
    x, y = data("fraud", "ok")
    model = ss.MetricLinearClassifier("f1").fit(x, y)
    assert model.classes_.tolist() == ["fraud", "ok"]
    p = model.predict_proba(x)
    assert p[y == "fraud", 0].mean() > p[y == "ok", 0].mean()
    expected = ss.MetricLinearClassifier("f1", pos_label="fraud").fit(x, y)
    assert model.score(x, y) == expected.score(x, y)
    assert "positive: fraud," in repr(model)


def test_the_model_inside_a_threshold_has_the_positive_class_of_all_rows():
    x, y = data("gone", "here")
    inner = ss.MetricLinearClassifier("f1", path=())
    model = ss.MetricThresholdClassifier(inner, "f1", pos_label="here").fit(x, y)
    assert model.estimator_.pos_label == "here"
    assert inner.pos_label is None


def test_a_model_of_a_table_names_the_positive_class_and_keeps_it_in_its_file(tmp_path):
    x, y = data()
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = ss.train_model(frame, y, recipe="linear-tuned")
    line = f"positive: ja, {100 * np.mean(y == 'ja'):.2g} % of rows"
    assert model.positive == line
    assert line in repr(model)
    model.save(tmp_path / "model.softset")
    assert ss.load_model(tmp_path / "model.softset").positive == line


def test_an_explicit_positive_class_stays_the_positive_one_in_a_model():
    x, y = data("a", "z")  # a is the rarer one
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = ss.train_model(frame, y, recipe="linear-tuned", pos_label="z")
    assert model.positive.startswith("positive: z, ")


def test_a_comparison_is_of_the_rarer_class():
    x, y = data()
    table = check_dataset(x, y, None, None, None, 2, "ignore")
    assert table.classes == ["nein", "ja"]
    assert table.y.mean() == np.mean(y == "ja")


@pytest.mark.parametrize(
    ("names", "words"),
    [(["Yes", "yes", "YES", "no"], "'YES', 'Yes', 'yes' differ only by case"),
     (["A", "A ", "b"], "'A', 'A ' differ only by blanks")],
)  # fmt: skip
def test_classes_that_look_alike_are_said(names, words):  # D24, 31
    with pytest.warns(SpellingWarning, match=words):
        labels, _ = read_labels(names * 5)
    assert len(labels.classes) == len(names)


@pytest.mark.parametrize(
    ("training", "later"),
    [
        ([True, False], ["True", "false"]),
        ([True, False], ["TRUE", "FALSE"]),
        ([True, False], [1, 0]),
        (["true", "false"], [True, False]),
        (["True", "False"], ["true", "FALSE"]),
    ],
)
def test_truth_values_are_the_same_in_every_file(training, later):  # D24
    labels, codes = read_labels(training * 3)
    assert labels.encode(np.array(later * 3, dtype=object)).tolist() == codes.tolist()


def test_decimals_are_numbers():  # D24
    values = np.array([decimal.Decimal("1.00"), decimal.Decimal("2")] * 3, dtype=object)
    labels, codes = read_labels(values)
    assert labels.classes.tolist() == [1.0, 2.0]
    assert labels.encode(values).tolist() == codes.tolist()
