"""Classifiers of rows that come block by block: held-out rows, weights, files, memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.class_weight import compute_sample_weight

import softset as ss
from softset.classifiers import streamed
from softset.classifiers.streamed import survey
from tests.memory import needs_proc, printed


def problem(n=1500, classes=2, seed=0):
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, 4))
    noisy = x + 0.25 * g.normal(size=x.shape)
    y = (noisy[:, 0] + noisy[:, 1] > 1.5).astype(int) if classes == 2 else noisy[:, :3].argmax(1)
    return x, np.array(["no", "yes", "perhaps"])[y]


def cut(x, y, size, *more):
    return [
        (x[i : i + size], y[i : i + size], *(m[i : i + size] for m in more))
        for i in range(0, len(y), size)
    ]


def small(**settings):
    given = {
        "n_networks": 2,
        "max_epochs": 15,
        "hidden_layer_sizes": (8,),
        "random_state": 0,
        "patience": 4,
    }
    return ss.MetricMLPClassifier(**{**given, **settings})


MAKERS = {
    "networks": small,
    "lightgbm": lambda: ss.MetricBoostingClassifier(
        random_state=0, n_estimators=30, n_metric_estimators=10, n_jobs=1
    ),
    "xgboost": lambda: ss.MetricBoostingClassifier(
        library="xgboost", random_state=0, n_estimators=30, n_metric_estimators=10, n_jobs=1
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_as_good_as_in_memory(kind, classes):
    x, y = problem(classes=classes)
    new = problem(seed=1, classes=classes)
    blocks = cut(x, y, 200)
    model = MAKERS[kind]().fit(blocks)
    assert model.classes_.tolist() == sorted(set(y))
    inside = MAKERS[kind]().fit(x, y).score(*new)
    assert abs(model.score(*new) - inside) < 0.06
    assert inside > 0.7


@pytest.mark.parametrize(
    "model", [small(), ss.MetricBoostingClassifier(), ss.MetricLinearClassifier()]
)
@pytest.mark.parametrize(
    "beside", [{"sample_weight": np.ones(200)}, {"sample_cost": np.ones((200, 4))}]
)
def test_weights_and_costs_beside_a_stream_are_refused(model, beside):
    with pytest.raises(ValueError, match=r"blocks of a stream|rows in memory"):
        model.fit(cut(*problem(200), 100), **beside)


def test_how_the_stream_is_cut_does_not_change_what_is_held_out(monkeypatch):
    monkeypatch.setattr(streamed, "HELD", 100)
    x, y = problem()
    x = np.concatenate([x, x[:50]])  # equal rows
    y = np.concatenate([y, y[:50]])
    found = [survey(small(), cut(x, y, size), 0.2, 7) for size in (1550, 200, 33)]
    for one in found:
        assert 100 <= len(one.held.x) <= 102
        assert (one.held.x == found[0].held.x).all()
        assert one.scaler.center == pytest.approx(x.mean(0))
        assert one.scaler.scale == pytest.approx(x.std(0))
        model = small()
        model.n_features_in_ = 4
        trained = np.concatenate([rows.x for rows in one.parts(model, cut(x, y, 200))])
        assert len(trained) + len(one.held.x) == 1550
        assert not {tuple(r) for r in trained} & {tuple(r) for r in one.held.x}


@pytest.mark.parametrize("case", ["27 kinds", "one in three is the same"])
def test_where_rows_repeat_they_are_held_out_one_by_one(case):
    random = np.random.default_rng(0)
    x = random.integers(0, 3, (1500, 3)).astype(float)
    if case != "27 kinds":
        x = np.where(random.random((1500, 1)) < 0.35, 0.0, random.normal(size=(1500, 3)))
    y, w = random.choice(["no", "yes"], 1500), random.integers(0, 3, 1500) * 1.0
    found = [survey(small(), cut(x, y, size, w), 0.2, 7) for size in (1500, 200, 33)]
    for one in found:
        assert (one.held.x == found[0].held.x).all()
    held, model = found[0].held, small()
    assert len(held.y) == round(0.2 * (w > 0).sum())
    usual = (
        (x[w > 0] == x[0]).all(1).mean() if case == "27 kinds" else (x[w > 0] == 0).all(1).mean()
    )
    kind = x[0] if case == "27 kinds" else 0.0
    assert (held.x == kind).all(1).mean() == pytest.approx(usual, abs=0.08)
    model.n_features_in_ = 3
    for order in (np.arange(1500), random.permutation(1500)):  # another order of the same rows
        parts = found[0].parts(model, cut(x[order], y[order], 200, w[order]))
        rows = [np.column_stack([r.x, r.y, r.w * found[0].mean_weight]) for r in (held, *parts)]
        whole = np.column_stack([x, y == "yes", w])[w > 0]
        both = [a[np.lexsort(a.T)] for a in (np.concatenate(rows), whole)]
        np.testing.assert_allclose(*both)


@pytest.mark.parametrize("kind", ["networks", "lightgbm"])
def test_columns_of_few_categories_are_learnt_from_a_stream(kind):
    """Three columns of three values, of which two matter together."""
    random = np.random.default_rng(0)
    cells = random.integers(0, 3, (3000, 3))
    y = (random.random(3000) < np.where((cells[:, 0] + cells[:, 1]) % 3 == 0, 0.8, 0.15)).astype(
        int
    )
    x = np.hstack([np.eye(3)[c] for c in cells.T])
    model = MAKERS[kind]().fit(cut(x[:1500], y[:1500], 200))
    assert model.score(x[1500:], y[1500:]) > 0.72  # at best .76


def test_a_tenth_is_held_out_of_few_rows():
    x, y = problem()
    assert len(survey(small(), cut(x, y, 100), 0.1, 0).held.x) == 150


EACH = {"multiclass": {"no": 0.3, "yes": 2.0}, "multilabel": [{1: 4.0}, {0: 0.4, 1: 2.0}]}


def balanced(y, w):
    """``n / (classes n_class)`` of each column, with the sum of the weights for the rows."""
    factor = np.ones(len(w))
    for column in y.reshape(len(y), -1).T:
        for value in np.unique(column):
            own = column == value
            factor[own] *= w.sum() / (len(np.unique(column)) * w[own].sum())
    return factor


@pytest.mark.parametrize("given", [None, "balanced", "each"])
@pytest.mark.parametrize("kind", ["no", "yes", "multiclass", "multilabel"])
def test_weights_and_classes_count_as_in_memory(kind, given):
    """Whichever of two classes is the positive one, and however rows come in blocks."""
    x, y = problem(300, classes=3 if kind == "multiclass" else 2)
    y = (x[:, :2] > [0.3, 1.0]).astype(int) if kind == "multilabel" else y
    w = np.where(x[:, 2] > -0.5, np.where(x[:, 3] > 0, 3.0, 1.0), 0.0)
    each = EACH.get(kind, {"yes": 2.0, "no": 0.5})
    first = {"pos_label": kind} if kind in ("no", "yes") else {}
    model = small(class_weight=each if given == "each" else given, **first)
    found = survey(model, cut(x, y, 70, w), 0.2, 0)
    assert found.rows == (w > 0).sum()
    parts = [found.held, *found.parts(model, cut(x, y, 110, w))]
    place = np.searchsorted(np.sort(x[:, 0]), np.concatenate([rows.x[:, 0] for rows in parts]))
    place = np.argsort(x[:, 0])[place]
    assert sorted(place) == np.flatnonzero(w > 0).tolist()
    weight, code = (np.concatenate([getattr(rows, a) for rows in parts]) for a in "wy")
    wanted = w * (balanced(y, w) if given == "balanced" else 1)
    wanted *= compute_sample_weight(each, y) if given == "each" else 1
    np.testing.assert_allclose(weight / weight.mean(), wanted[place] / wanted[w > 0].mean())
    # Which labels are together is known of the held-out rows alone.
    assert weight.mean() == pytest.approx(1, abs=0.2 if kind == "multilabel" else 1e-9)
    target = np.unique(y, return_inverse=True)[1] if kind == "multiclass" else y == kind
    np.testing.assert_array_equal(code, (y if kind == "multilabel" else target)[place])


def test_inputs_are_scaled_as_in_memory():
    x, y = problem()
    w = np.where(x[:, 2] > 0, 3.0, 0.0)
    weighted = {"class_weight": {"yes": 2.0}, "max_epochs": 2}
    stream, memory = (small(**weighted).fit(*a) for a in ([cut(x, y, 100, w)], (x, y, w)))
    assert stream._scaler.center == pytest.approx(memory._scaler.center)
    assert stream._scaler.scale == pytest.approx(memory._scaler.scale)


def test_what_does_not_fit_is_refused():
    x, y = problem(100)
    with pytest.raises(ValueError, match="gone through several times"):
        small().fit(iter(cut(x, y, 50)))
    with pytest.raises(ValueError, match="one class only"):
        small().fit([(x, np.zeros(100))])
    with pytest.raises(ValueError, match="no row of positive weight"):
        small().fit([(x, y, np.zeros(100))])
    with pytest.raises(ValueError, match="not negative"):
        small().fit([(x, y, -np.ones(100))])
    with pytest.raises(ValueError, match="NaN"):
        small().fit([(np.full_like(x, np.nan), y)])
    with pytest.raises(ValueError, match="features"):
        small().fit([(x, y), (x[:, :3], y)])
    with pytest.raises(ValueError, match="would be held out"):
        small().fit([(x[:2], ["no", "yes"])])


@pytest.mark.parametrize("kind", ["networks", "lightgbm"])
def test_several_labels(kind):
    x, _ = problem(500)
    y = (x[:, :2] + 0.2 * np.random.default_rng(0).normal(size=(500, 2)) > 0.5).astype(int)
    model = MAKERS[kind]().fit(cut(x, y, 120))
    assert model.task_ == "multilabel"
    assert model.predict(x).shape == (500, 2)
    assert model.score(x, y) > 0.8


def test_boosting_takes_missing_values():
    x, y = problem(400)
    x[::7, 3] = np.nan
    model = MAKERS["lightgbm"]().fit(cut(x, y, 100))
    assert model.score(x, y) > 0.7


@pytest.fixture
def file(tmp_path):
    x, y = problem(600)
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["kind"] = np.where(x[:, 3] > 0, "left", "right")
    frame["y"] = y
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path, row_group_size=150)
    return path, frame


def test_a_model_of_a_parquet_file(file, tmp_path):
    path, frame = file
    rows = ss.ParquetRows(path, "y")
    model = ss.train_model(
        rows, pos_label="no", n_networks=1, max_epochs=5, hidden_layer_sizes=(8,)
    )
    assert model.classes_.tolist() == ["yes", "no"]
    decided = model.predict(frame)
    assert (decided == frame["y"]).mean() > 0.8
    model.save(tmp_path / "model.softset")
    again = ss.load_model(tmp_path / "model.softset")
    assert (again.predict(frame) == decided).all()
    with pytest.raises(ValueError, match="recipe='forest-tuned' needs all rows in memory"):
        ss.train_model(rows, recipe="forest-tuned")
    with pytest.raises(ValueError, match="itself"):
        ss.train_model(rows, frame["y"])
    with pytest.raises(ValueError, match="checkpoint is for networks"):
        ss.train_model(rows, recipe="boosting-tuned", checkpoint=tmp_path / "run")


def test_a_checkpoint_of_other_rows_is_refused(file, tmp_path):
    path, frame = file
    saved = tmp_path / "run.checkpoint"
    numbers = ["a", "b", "c", "d"]
    rows = ss.ParquetRows(path, "y", drop=["kind"])
    small(max_epochs=1)._fit_stream(rows, saved)
    one, other = small(max_epochs=1), small(max_epochs=1)
    one._fit_stream(rows, saved)
    other.fit(rows)
    assert (one.predict_proba(frame[numbers]) == other.predict_proba(frame[numbers])).all()
    frame.assign(a=frame["a"] + 1).to_parquet(path, row_group_size=150)
    with pytest.raises(ValueError, match="other data or settings"):
        small(max_epochs=1)._fit_stream(ss.ParquetRows(path, "y", drop=["kind"]), saved)


MEMORY = """
import sys
import numpy as np, pandas as pd
import softset as ss
from tests.memory import peak

def model():
    return ss.MetricMLPClassifier(
        hidden_layer_sizes=(8,), n_networks=1, max_epochs=int(sys.argv[3]), recipe=sys.argv[4],
        batch_size=5000, random_state=0
    )

path, rows, _, _ = sys.argv[1:]
g = np.random.default_rng(0)
model().fit([(g.normal(size=(200, 10)), np.arange(200) % 2)])  # all is imported
small = ss.ParquetRows(path + "/small.parquet", "y")
model().fit(small)
before = peak()
stream = ss.ParquetRows(path + "/large.parquet", "y")
found = model().fit(stream)
print(stream.size / 2**20, (peak() - before) / 1024, len(found.history_[0]["loss"]))
"""


def memory(folder, rows, epochs, recipe):
    """MB of unpacked data, and MB that a process takes to train on them beyond its imports."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    g = np.random.default_rng(0)
    for name, count in (("small", 1000), ("large", rows)):
        writer = None
        for _ in range(0, count, 10_000):
            x = g.normal(size=(min(count, 10_000), 10))
            columns = {f"x{i}": x[:, i] for i in range(10)} | {"y": (x[:, 0] > 1.5).astype(int)}
            table = pa.table(columns)
            writer = writer or parquet.ParquetWriter(folder / f"{name}.parquet", table.schema)
            writer.write_table(table)
        writer.close()
    return map(float, printed(MEMORY, folder, rows, epochs, recipe))


@needs_proc
def test_twice_as_much_data_as_memory(tmp_path):
    data, taken, epochs = memory(tmp_path, 1_000_000, 1, "cross-entropy")
    assert data > 90
    assert epochs == 1
    assert 2 * taken < data


@pytest.mark.slow
@needs_proc
def test_forty_times_as_much_data_as_memory(tmp_path):
    data, taken, _ = memory(tmp_path, 20_000_000, 3, "warm")
    assert data > 1500
    assert 40 * taken < data
