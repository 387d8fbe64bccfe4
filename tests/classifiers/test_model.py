"""One file for encoder and classifier: it predicts the same; what is not ours is refused."""

import json
import pickle
import struct

import numpy as np
import pandas as pd
import pytest
import torch

from softset import SavedFileError
from softset.classifiers.model import load_model, save_model, train_model
from softset.classifiers.recipes import CLASSIFIERS, RECIPES
from softset.tables.labels import label_matrix

FAST = {"n_networks": 2, "max_epochs": 5, "hidden_layer_sizes": (8,)}

# On a few made-up rows "all positive" may be the best F1.


def mixed(n=200, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": x,
            "hole": np.where(random.random(n) < 0.2, np.nan, random.normal(size=n)),
            "city": random.choice(["Rome", "Oslo", "Bonn"], n),
            "day": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
        }
    )
    return frame, x + random.normal(scale=0.5, size=n)


def save(model, path):
    save_model(path, encoder=model.encoder, classifier=model.classifier, info=model.info)
    return path


def targets(kind, z):
    if kind == "labels":
        return np.column_stack([z > 0, z > 1]).astype(int)
    if kind == "numbers":
        return np.digitize(z, [-0.5, 0.5]) * 10
    if kind == "bool":
        return z > 0.5
    return np.where(z > 0.5, "yes", "no")


@pytest.mark.parametrize("kind", ["text", "bool", "numbers", "labels"])
@pytest.mark.parametrize("recipe", ["warm", "boosting-metric", "forest-tuned"])
def test_a_saved_model_predicts_the_same(tmp_path, recipe, kind):
    settings = {"warm": FAST, "boosting-metric": {"n_estimators": 5, "n_metric_estimators": 2}}.get(
        recipe, {}
    )
    frame, z = mixed()
    y = targets(kind, z)
    info = {"target": ["label"], "note": "x"}
    model = train_model(frame, y, recipe=recipe, info=info, **settings)
    loaded = load_model(save(model, tmp_path / "model.softset"))
    # other order, other extra columns, the target among them
    again = frame.assign(label=1)[["day", "label", "city", "hole", "x"]]
    np.testing.assert_array_equal(loaded.predict(again), model.predict(frame))
    np.testing.assert_array_equal(loaded.predict_proba(again), model.predict_proba(frame))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.classes_.dtype == model.classes_.dtype
    assert (loaded.metric, loaded.task, loaded.threshold) == (
        model.metric,
        model.task,
        model.threshold,
    )
    assert loaded.info["note"] == "x"
    if kind != "labels":
        assert set(loaded.predict(again).tolist()) <= set(y.tolist())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    frame, z = mixed()
    model = train_model(frame, targets("text", z), recipe="warm", pos_label="no", **FAST)
    return (
        save(model, tmp_path_factory.mktemp("model") / "model.softset"),
        frame,
        targets("text", z),
    )


def test_the_positive_class_can_be_chosen(saved):
    path, frame, y = saved
    model = load_model(path)
    assert model.classes_.tolist() == ["yes", "no"]
    assert (
        model.predict_proba(frame)[y == "no", 1].mean()
        > model.predict_proba(frame)[y == "yes", 1].mean()
    )
    assert model.codes(["yes", "no"]).tolist() == [0, 1]
    with pytest.raises(ValueError, match="'maybe' are unknown to the model; it knows 'yes', 'no'"):
        model.codes(["yes", "maybe"])


def test_columns_are_realigned_missing_refused_and_further_ones_ignored(saved):  # 21
    path, frame, _ = saved
    model = load_model(path)
    expected = model.predict_proba(frame)
    np.testing.assert_array_equal(model.predict_proba(frame[frame.columns[::-1]]), expected)
    with pytest.raises(ValueError, match=r"column\(s\) 'city' of the training data are missing"):
        model.predict(frame.drop(columns="city"))
    with pytest.warns(UserWarning, match="'new' were not there in training; they are ignored"):
        np.testing.assert_array_equal(model.predict_proba(frame.assign(new=1)), expected)


def test_a_pickled_model_is_refused(tmp_path):  # 70
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(SavedFileError, match=r"model\.pkl looks like a pickled model"):
        load_model(path)
    torch.save({"x": 1}, path)
    with pytest.raises(SavedFileError, match="pickled"):
        load_model(path)
    assert not (tmp_path / "ran").exists()


def test_a_flipped_byte_is_noticed(saved, tmp_path):  # 58
    data = saved[0].read_bytes()
    for place in np.random.default_rng(0).integers(0, len(data), 40):
        damaged = bytearray(data)
        damaged[place] ^= 1
        (tmp_path / "m").write_bytes(damaged)
        with pytest.raises(SavedFileError):
            load_model(tmp_path / "m")


def test_another_format_or_kind_is_refused(saved, tmp_path):  # 59
    data = saved[0].read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"]["format"] = "9"
    text = json.dumps(header).encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
    with pytest.raises(SavedFileError, match=r"in format '9'; expected 'model' in format '2'"):
        load_model(tmp_path / "m")
    with pytest.raises(FileNotFoundError, match="no file"):
        load_model(tmp_path / "absent")
    with pytest.raises(SavedFileError, match="directory"):
        load_model(tmp_path)


# (number, target, settings, words of the error)
BAD_LABELS = [
    (26, ["a"] * 200, {}, "one class only: 'a'"),
    (30, ["a", None] * 100, {}, r"missing \(NaN or None\) in 100 row\(s\): 1, 3"),
    (33, np.array(["a", 1] * 100, dtype=object), {}, "mix text and numbers"),
    (34, np.linspace(0, 1, 200), {}, "continuous"),
    (36, ["a", "b"] * 100, {"pos_label": "c"}, r"one of \['a', 'b'\], got 'c'"),
    (36, ["a", "b", "c", "c"] * 50, {"pos_label": "a"}, "two classes; y holds 3"),
    (37, ["a", "b"] * 100, {"sample_weight": -np.ones(200)}, "negative"),
    (37, ["a", "b"] * 100, {"sample_weight": np.zeros(200)}, "zero"),
    (39, ["a", "b"] * 100, {"recipe": "warmm"}, "Did you mean 'warm'"),
    (39, ["a", "b"] * 100, {"metric": "f1_scor"}, "Did you mean"),
]


@pytest.mark.parametrize(
    ("y", "settings", "words"),
    [pytest.param(*row[1:], id=f"{row[0]}-{i}") for i, row in enumerate(BAD_LABELS)],
)
def test_bad_labels_and_settings_are_refused(y, settings, words):
    with pytest.raises(ValueError, match=words):
        train_model(mixed()[0], y, **settings)


def test_warnings_name_the_class():
    frame, z = mixed()
    y = targets("text", z).astype(object)
    y[0] = "once"
    for labels in (y, y.astype(str)):
        with pytest.warns(UserWarning, match="class 'once' has too few distinct rows"):
            train_model(frame, labels, recipe="boosting-tuned", n_estimators=5)


def test_our_own_files_are_never_taken_for_pickles(tmp_path, saved):
    model = load_model(saved[0])
    seen = set()
    for length in range(300):  # the first byte is that of the header's length
        model.save(tmp_path / "m", note="x" * length)
        seen.add((tmp_path / "m").read_bytes()[0])
        load_model(tmp_path / "m")
    assert {0x80, ord("("), ord("c")} & seen


def test_labels_of_several_targets():
    assert label_matrix([[True, False], ["1", "0"]][0]).tolist() == [1, 0]
    assert label_matrix(np.array([["true", "0"]])).tolist() == [[1, 0]]
    with pytest.raises(ValueError, match="0 and 1"):
        label_matrix([[2, 0]])


def test_every_recipe_names_a_known_classifier():
    assert {row.classifier for row in RECIPES.values()} == set(CLASSIFIERS)


def test_rows_may_be_dictionaries(saved):  # 23
    path, table, _ = saved
    model = load_model(path)
    rows = table.head(5).to_dict("records")
    np.testing.assert_array_equal(model.predict_proba(rows), model.predict_proba(table.head(5)))
    np.testing.assert_array_equal(model.predict(rows[:1]), model.predict(table.head(1)))
    for wrong, got in ((rows[0], "dict"), ([], "an empty list"), (np.zeros((2, 2)), "ndarray")):
        with pytest.raises(ValueError, match=f"a list of rows {{column: value}}, got {got}"):
            model.predict(wrong)


@pytest.mark.parametrize("recipe", ["linear-tuned", "forest-tuned"])
def test_a_model_decides_at_another_threshold_also_after_it_was_saved(recipe, tmp_path):
    x = np.random.default_rng(0).normal(size=(200, 2))
    frame, y = pd.DataFrame(x, columns=["a", "b"]), np.where(x[:, 0] > 1, "yes", "no")
    model = train_model(frame, y, recipe=recipe)
    before = model.predict(frame)
    for threshold in (0.0512, 0.9087, None):
        moved = model.with_threshold(threshold)
        expected = model.predict_proba(frame)[:, 1] >= (threshold or 0.5)
        assert ((moved.predict(frame) == "yes") == expected).all()
        assert moved.threshold == pytest.approx(threshold or 0.5)
        moved.save(tmp_path / "model.softset")
        again = load_model(tmp_path / "model.softset")
        assert (again.predict(frame) == moved.predict(frame)).all()
        (tmp_path / "model.softset").unlink()
    assert (model.predict(frame) == before).all()  # the model itself stays as it is
    with pytest.raises(ValueError, match="threshold must be"):
        model.with_threshold(1.5)
