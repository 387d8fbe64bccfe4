import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import f1_score, matthews_corrcoef
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import softset as ss
from softset import MetricBoostingClassifier
from softset.decisions.smoothing import smooth_threshold
from softset.tables.rows import Examples
from softset.tables.splits import content_split

LIBRARIES = ["lightgbm", "xgboost"]


def small(library="lightgbm", metric="f1", **settings):
    settings = {"n_estimators": 20, "n_metric_estimators": 20, "random_state": 0, **settings}
    return MetricBoostingClassifier(metric, library=library, **settings)


@pytest.fixture(scope="module")
def data():
    return make_classification(500, 8, weights=[0.85], flip_y=0.05, random_state=0)


# --- the contract ---------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [False, True], [-1, 1], [0.0, 1.0], ["NA", "None"], ["01", "1"]],
    ids=str,
)
def test_labels_come_back_as_they_went_in(library, labels, data):
    x, y = data
    names = np.array(labels)
    model = small(library).fit(x, names[y])
    assert model.classes_.tolist() == labels
    predicted = model.predict(x)
    assert predicted.dtype == names.dtype
    plain = small(library).fit(x, y).predict(x)
    np.testing.assert_array_equal(predicted, names[plain])


@pytest.mark.parametrize("library", LIBRARIES)
def test_score_is_the_metric(library, data):
    x, y = data
    w = np.linspace(0.1, 2, len(y))
    model = small(library).fit(x, y)
    assert model.score(x, y) == pytest.approx(f1_score(y, model.predict(x)), abs=1e-12)
    wanted = f1_score(y, model.predict(x), sample_weight=w)
    assert model.score(x, y, w) == pytest.approx(wanted, abs=1e-12)
    x, y = load_iris(return_X_y=True)
    model = small(library, "mcc").fit(x, y)
    assert model.score(x, y) == pytest.approx(matthews_corrcoef(y, model.predict(x)), abs=1e-12)
    assert model.score(x, y) > 0.85
    d = model.decision_function(x)
    np.testing.assert_array_equal(d.argmax(1), model.predict(x))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "metric", ["auroc", ss.FBeta(2.0), lambda c: ss.counting.ratio(c.tp, c.total)]
)
def test_any_metric_trains(library, metric, data):
    x, y = data
    model = small(library, metric).fit(x, y)
    assert np.isfinite(model.decision_function(x)).all()
    assert np.isfinite(model.score(x, y))


def test_it_works_inside_scikit_learn(data):
    x, y = data
    model = make_pipeline(StandardScaler(), small(n_metric_estimators=5))
    assert cross_val_score(model, x, y, cv=2).mean() > 0.3
    search = GridSearchCV(small(), {"learning_rate": [0.05, 0.2]}, cv=2).fit(x, y)
    assert search.best_params_["learning_rate"] in (0.05, 0.2)
    assert clone(small(n_metric_estimators=7)).n_metric_estimators == 7


# --- what it does ---------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_metric_rounds_are_kept_only_as_far_as_they_help(library, data):
    x, y = data
    model = small(library, n_metric_estimators=60, patience=5).fit(x, y)
    history = np.array(model.history_)
    assert len(history) in (model.n_metric_estimators_ + 5, 60)
    if model.n_metric_estimators_:
        assert history[model.n_metric_estimators_ - 1] == history.max()
    without = small(library, n_metric_estimators=0).fit(x, y)
    assert without.n_metric_estimators_ == 0
    assert without.history_ == []


def test_one_round_equals_the_objective_and_the_library_by_hand(data):
    import lightgbm

    x, y = data
    every_row = {"bagging_freq": 0, "feature_fraction": 1.0}
    model = small(n_estimators=0, n_metric_estimators=1, params=every_row).fit(x, y)
    salt = int(np.random.RandomState(0).randint(2**31 - 1, size=2)[0])
    train, _ = content_split(Examples(x, y, np.ones(len(y))), 0.25, salt)
    rows = lightgbm.Dataset(x[train], y[train])
    settings = {"objective": ss.lightgbm_objective("f1"), "num_leaves": 15, "lambda_l2": 1.0}
    settings |= {"min_data_in_leaf": 18, "learning_rate": 0.05}
    settings |= {"verbosity": -1, "num_threads": 1}
    by_hand = lightgbm.train(settings, rows, 1).predict(x)
    p = model.predict_proba(x)[:, 1]
    np.testing.assert_allclose(np.log(p / (1 - p)), by_hand, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_round_for_the_metric_moves_no_score_by_more_than_half_the_learning_rate(library, data):
    """As no leaf's step is above 1; a leaf of rows that all want the same gets nearly there."""
    x, y = data
    for rate in (0.1, 0.4):
        given = {"n_estimators": 0, "n_metric_estimators": 1, "learning_rate": rate}
        p = small(library, **given).fit(x, y).predict_proba(x)[:, 1]
        moved = np.abs(np.log(p / (1 - p))).max()
        assert 0.2 * rate < moved <= 0.5 * rate + 1e-6


def test_the_cut_is_near_the_best_one_where_there_is_plenty_of_data():
    rng = np.random.default_rng(0)
    y = (rng.random(20000) < 0.2).astype(int)
    z = rng.normal(2 * y, 1.0)
    cut, _ = smooth_threshold(z, y, np.ones(len(z)), ss.get_metric("f1"))
    tau = ss.best_threshold(torch.from_numpy(z), torch.from_numpy(y), "f1", from_logits=True)
    best = f1_score(y, z >= np.log(tau / (1 - tau)))
    assert f1_score(y, z >= cut) > best - 0.005


@pytest.mark.parametrize("library", LIBRARIES)
def test_same_seed_same_model(library, data):
    x, y = data
    scores = [small(library).fit(x, y).decision_function(x) for _ in range(3)]
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])
    assert not np.array_equal(
        small(library, random_state=1).fit(x, y).decision_function(x), scores[0]
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_class_weight_is_weight_of_rows(library, data):
    x, y = data
    plain = small(library).fit(x, y).decision_function(x)
    weighted = small(library, class_weight={0: 1.0, 1: 3.0}).fit(x, y).decision_function(x)
    rows = small(library).fit(x, y, np.where(y, 3.0, 1.0)).decision_function(x)
    np.testing.assert_array_equal(weighted, rows)
    balanced = small(library, class_weight="balanced").fit(x, y).decision_function(x)
    assert np.abs(weighted - plain).max() > 1e-3
    assert np.abs(balanced - weighted).max() > 1e-3


@pytest.mark.parametrize("library", LIBRARIES)
def test_categories_and_missing_values_are_the_librarys_own(library):
    rng = np.random.default_rng(0)
    town = rng.choice(["Ulm", "Bonn", "Kiel", "Jena"], 600)
    size = np.where(rng.random(600) < 0.3, np.nan, rng.normal(size=600))
    # Positive for two towns that are no neighbors in the alphabet, or where size is missing.
    y = (np.isin(town, ["Bonn", "Kiel"]) & (rng.random(600) < 0.9)) | np.isnan(size)
    frame = pd.DataFrame({"town": town, "size": size})
    for kind in ("category", "object"):
        x = frame.assign(town=frame.town.astype(kind))
        model = small(library).fit(x, y)
        assert model.score(x, y) > 0.9
        new = pd.DataFrame({"town": ["Rome", "Bonn", None], "size": [0.0, 0.0, np.nan]})
        assert model.predict(new)[1:].all()
    with pytest.raises(ValueError, match="must be a data frame"):
        model.predict(frame.to_numpy())


# --- files ----------------------------------------------------------------------------------------


def own_metric(c):
    return ss.counting.ratio(c.tp, c.support)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["binary", "text", "multiclass", "frame"])
def test_a_loaded_model_decides_to_the_bit_as_the_saved_one(library, kind, data, tmp_path):
    x, y = load_iris(return_X_y=True) if kind == "multiclass" else data
    if kind == "text":
        y = np.array(["no", "yes"])[y]
    if kind == "frame":
        x = pd.DataFrame(x).add_prefix("c").assign(side=np.where(x[:, 0] > 0, "l", "r"))
    weight = {"no": 1.0, "yes": 2.0} if kind == "text" else None
    model = small(library, class_weight=weight).fit(x, y)
    model.save(tmp_path / "model")
    loaded = MetricBoostingClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(x), model.decision_function(x))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    assert loaded.get_params() == model.get_params()
    assert loaded.score(x, y) == model.score(x, y)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_metric_of_ones_own_is_passed_again(data, tmp_path):
    x, y = data
    model = small(metric=own_metric).fit(x, y)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"metric=\.\.\."):
        MetricBoostingClassifier.load(tmp_path / "model")
    loaded = MetricBoostingClassifier.load(tmp_path / "model", metric=own_metric)
    assert loaded.score(x, y) == model.score(x, y)


def test_damaged_and_foreign_files_are_refused(data, tmp_path):
    x, y = data
    path = tmp_path / "model"
    small().fit(x, y).save(path)
    good = path.read_bytes()
    assert b"pickle" not in good
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(good), 200):
        bad = bytearray(good)
        bad[place] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(bad))
        with pytest.raises(ss.SavedFileError, match=r"damaged|expected"):
            MetricBoostingClassifier.load(path)
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(ValueError, match="damaged"):
        MetricBoostingClassifier.load(path)


def test_a_failed_save_leaves_the_old_file(data, tmp_path, monkeypatch):
    x, y = data
    path = tmp_path / "model"
    model = small().fit(x, y)
    model.save(path)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"library": "catboost"}, "library must be one of"),
        ({"library": "lightgmb"}, "Did you mean 'lightgbm'"),
        ({"metric": "f1_scor"}, "Did you mean 'f1'"),
        ({"metric": ss.F1(average=None)}, "average=None"),
        ({"learning_rate": 0}, "learning_rate must be in"),
        ({"learning_rate": float("nan")}, "learning_rate must be in"),
        ({"threshold": 1.0}, r"threshold must be in \(0, 1\)"),
        ({"threshold": "best"}, "threshold must be one of 'tuned'"),
        ({"validation_fraction": 1.0}, "validation_fraction must be in"),
        ({"patience": 0}, "patience must be in"),
        ({"n_metric_estimators": 0, "n_estimators": 0}, "n_metric_estimators must be positive"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(settings, message, data):
    with pytest.raises(ValueError, match=message):
        small(**settings).fit(*data)


def test_wrong_labels_and_weights_are_named(data):
    x, y = data
    missing = y.astype(float)
    missing[3] = np.nan
    mixed = y.astype(object)
    mixed[0] = "a"
    for labels, message in [
        (np.zeros(len(y)), "one class"),
        (missing, r"row\(s\): 3"),
        (np.where(np.arange(len(y)) == 3, None, "a"), r"row\(s\): 3"),
        (np.where(y, np.inf, 0.0), "contains infinity"),
        (mixed, "must not mix text and numbers"),
        (x[:, 0], "continuous"),
        (y[:-1], "one label for each|inconsistent"),
    ]:
        with pytest.raises(ValueError, match=message):
            small().fit(x, labels)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        small().fit(x, y, np.where(y, -1.0, 1.0))
    with pytest.raises(ValueError, match="zero"):
        small().fit(x, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="unknown to the model"):
        small().fit(x, y).score(x, y + 1)
    with pytest.warns(UserWarning, match="blanks"):
        small().fit(x, np.array(["A", "A "])[y])
    with pytest.warns(Warning, match="column-vector"):
        small().fit(x, y[:, None])
    with pytest.raises(ValueError, match="must be 3 finite offsets"):
        small(threshold=0.4).fit(*load_iris(return_X_y=True))


@pytest.mark.parametrize("library", LIBRARIES)
def test_half_the_labels_flipped_still_trains(library, data):
    x, y = data
    flipped = np.where(np.arange(len(y)) % 2, y, 1 - y)
    model = small(library).fit(x, flipped)
    assert np.isfinite(model.decision_function(x)).all()


# --- as its siblings ------------------------------------------------------------------------------


def test_no_threshold_is_one_half_as_for_its_siblings(data):
    x, y = data
    model = small(threshold=None).fit(x, y)
    assert model.threshold_ == 0.5
    np.testing.assert_array_equal(model.predict(x), model.predict_proba(x).argmax(1))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_several_classes_need_no_log_loss_rounds(library):
    x, y = make_classification(300, n_classes=3, n_informative=4, random_state=0)
    model = MetricBoostingClassifier(
        library=library, n_estimators=0, n_metric_estimators=20, random_state=0
    )
    assert model.fit(x, y).score(x, y) > 0.7


@pytest.mark.parametrize("library", LIBRARIES)
def test_several_labels_have_a_booster_each(library, data, tmp_path):
    x, y = data
    labels = np.column_stack([y, x[:, 0] > 0.5])
    model = small(library).fit(x, labels)
    assert model.predict(x).shape == model.predict_proba(x).shape == labels.shape
    assert len(model.n_metric_estimators_) == len(model.threshold_) == 2
    assert model.score(x, labels) > 0.8
    alone = small(library).fit(x, labels[:, 0])
    assert alone.score(x, labels[:, 0]) == pytest.approx(
        ss.evaluate(model.predict(x)[:, 0].astype(float), y, "f1", from_logits=False), abs=0.1
    )
    model.save(tmp_path / "m")
    loaded = MetricBoostingClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


def test_one_row_of_a_class_trains_and_is_said(data):
    x, _ = data
    y = (np.arange(len(x)) == 0).astype(int)
    with pytest.warns(UserWarning, match="class 1 has too few distinct rows"):
        model = small().fit(x, y)
    assert np.isfinite(model.decision_function(x)).all()
