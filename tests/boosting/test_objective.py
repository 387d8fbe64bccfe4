import doctest
import multiprocessing

import lightgbm
import numpy as np
import pytest
import torch
import xgboost
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.metrics import f1_score, matthews_corrcoef

import softset as ss
from softset.boosting.objective import (
    lightgbm_objective,
    metric_gradient,
    xgboost_objective,
)

OBJECTIVES = [lightgbm_objective, xgboost_objective]


def own_binary(c):
    """Twice as bad to miss a positive as to raise a false alarm."""
    return 1 - ss.counting.ratio(2 * c.fn + c.fp, c.total)


def own_of_matrix(c):
    """Reads the whole matrix: neighboring classes are half right."""
    m = c.matrix
    near = m.diagonal(dim1=-2, dim2=-1).sum(-1) + 0.5 * m.diagonal(1, -2, -1).sum(-1)
    return near / m.sum((-2, -1))


def problem(classes=2, n=80, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, n if classes == 2 else (n, classes))
    y = rng.integers(0, classes, n)
    y[:classes] = range(classes)
    return z, y, rng.uniform(0.1, 3, n)


def imbalanced(n=400, seed=0):
    return make_classification(n, 8, weights=[0.9], flip_y=0.05, random_state=seed)


# --- the gradient ---------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("metric", "classes"),
    [*((m, c) for m in ss.METRICS for c in (2, 4)), (own_binary, 2), (own_of_matrix, 4)],
)
def test_gradient_is_autograd_of_the_core_loss_times_one_scale(metric, classes, weighted):
    z, y, w = problem(classes)
    w = w if weighted else None
    gradient, scale = metric_gradient(z, y, metric, sample_weight=w)

    scores = torch.tensor(z, requires_grad=True)
    task = "binary" if classes == 2 else "multiclass"
    ss.metric_loss(scores, torch.tensor(y), metric, task=task, sample_weight=w).backward()
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient / scale, scores.grad.numpy(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("step", [ss.SigmoidStep(5), ss.IdentityStep(), ss.LinearStep(0.2, 0.5)])
def test_gradient_follows_step_and_threshold(step):
    z, y, _ = problem()
    gradient, scale = metric_gradient(z, y, "mcc", step=step, threshold=0.3)
    scores = torch.tensor(z, requires_grad=True)
    ss.metric_loss(scores, torch.tensor(y), "mcc", step=step, threshold=0.3).backward()
    np.testing.assert_allclose(gradient / scale, scores.grad.numpy(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("threshold", [0.5, 0.2])
@pytest.mark.parametrize("step", [None, ss.SigmoidStep(5), ss.LinearStep(0.3)])
@pytest.mark.parametrize("make", OBJECTIVES)
def test_an_objective_has_its_step_and_threshold_in_gradient_and_value(make, step, threshold):
    rng = np.random.default_rng(0)
    y, z, w = rng.integers(0, 2, 60), rng.normal(size=60), rng.integers(0, 3, 60) * 1.0
    objective = make("mcc", step=step, threshold=threshold)
    gradient, curved = objective(y, z, w)
    scores = torch.tensor(z, requires_grad=True)
    given = {} if step is None else {"step": step}
    loss = ss.metric_loss(
        scores, torch.tensor(y), "mcc", threshold=threshold, sample_weight=w, **given
    )
    loss.backward()
    exact = scores.grad.numpy()
    np.testing.assert_allclose(
        gradient / np.abs(gradient).max(), exact / np.abs(exact).max(), atol=1e-9
    )
    np.testing.assert_allclose(curved, np.abs(gradient), atol=1e-5)
    decided = 1 / (1 + np.exp(-z)) >= threshold
    found = np.ravel(objective.evaluate(y, z, w))
    value = float(found[1] if len(found) > 1 else found[0])
    assert value == pytest.approx(matthews_corrcoef(y, decided, sample_weight=w))


def test_scale_of_f1_is_half_its_denominator():
    z, y, w = problem()
    _, scale = metric_gradient(z, y, "f1", sample_weight=w)
    c = ss.confusion(
        torch.tensor(z), torch.tensor(y), step=ss.LinearStep(), sample_weight=w, from_logits=True
    )
    assert scale == pytest.approx(float(c.support + c.predicted) / 2, rel=1e-12)


@pytest.mark.parametrize("make", OBJECTIVES)
def test_gradient_of_weights_is_that_of_repeated_rows(make):
    z, y, _ = problem()
    times = np.random.default_rng(1).integers(1, 4, len(y))
    weighted, _ = make("f1")(y, z, sample_weight=times)
    repeated, _ = make("f1")(np.repeat(y, times), np.repeat(z, times))
    first = np.cumsum(times) - times
    np.testing.assert_allclose(weighted, repeated[first] * times, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_all_interfaces_give_the_same_gradient_and_value(classes):
    z, y, w = problem(classes)
    x = np.zeros((len(y), 1))
    rows = lightgbm.Dataset(x, y, weight=w).construct()
    matrix = xgboost.DMatrix(x, y, weight=w)
    z, y, w = z.astype(np.float32), y.astype(np.float32), w.astype(np.float32)
    wanted = lightgbm_objective("mcc")(y, z, w)
    for got in (
        lightgbm_objective("mcc")(z, rows),
        xgboost_objective("mcc")(z, matrix),
        xgboost_objective("mcc")(y, z, sample_weight=w),
    ):
        np.testing.assert_array_equal(got, wanted)
    decided = z >= 0 if classes == 2 else z.argmax(1)
    value = pytest.approx(matthews_corrcoef(y, decided, sample_weight=w), abs=1e-12)
    assert lightgbm_objective("mcc").evaluate(z, rows) == ("mcc", value, True)
    assert lightgbm_objective("mcc").evaluate(y, z, w) == ("mcc", value, True)
    assert xgboost_objective("mcc").evaluate(z, matrix) == ("mcc", value)
    assert xgboost_objective("mcc").evaluate(y, z, sample_weight=w) == value


def test_the_metric_does_not_change_with_extreme_or_tied_scores():
    y = np.array([0, 1, 0, 1])
    for z in (np.array([-1e4, 1e4, 1e4, -1e4]), np.zeros(4), np.full(4, -50.0)):
        gradient, curvature = lightgbm_objective("f1")(y, z)
        assert np.isfinite(gradient).all()
        assert (curvature > 0).all()


def test_rows_without_positives_push_scores_down():
    gradient, _ = lightgbm_objective("f1")(np.zeros(5), np.zeros(5))
    assert (gradient > 0).all()


# --- training -------------------------------------------------------------------------------------


def losses_while_training(make, x, y, metric, rounds, rate):
    """The soft loss before every round and after the last."""
    objective = make(metric)
    classes = len(np.unique(y))
    task = "binary" if classes == 2 else "multiclass"
    seen = []

    def watched(scores, data):
        z = torch.from_numpy(np.asarray(scores, dtype=np.float64))
        seen.append(ss.metric_loss(z, torch.tensor(y), metric, task=task).item())
        return objective(scores, data)

    if make is lightgbm_objective:
        settings = {"learning_rate": rate, "verbosity": -1, "num_threads": 1, "objective": watched}
        settings |= {"num_class": classes} if classes > 2 else {}
        lightgbm.train(settings, lightgbm.Dataset(x, y), rounds)
    else:
        settings = {"eta": rate, "base_score": 0, "min_child_weight": 1e-3, "nthread": 1}
        settings |= {"num_class": classes} if classes > 2 else {}
        xgboost.train(settings, xgboost.DMatrix(x, y), rounds, obj=watched)
    return np.array(seen)


DATA = {
    "imbalanced": imbalanced,
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: tuple(a[:500] for a in load_digits(return_X_y=True)),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("metric", ["f1", "mcc", "balanced_accuracy"])
@pytest.mark.parametrize("make", OBJECTIVES)
def test_loss_falls_in_every_one_of_the_first_rounds(make, metric, data):
    x, y = DATA[data]()
    losses = losses_while_training(make, x, y, metric, rounds=15, rate=0.05)
    assert len(losses) == 15
    assert (np.diff(losses) < 0).all()


@pytest.mark.parametrize("make", OBJECTIVES)
def test_no_leaf_moves_a_score_by_more_than_the_learning_rate(make):
    x, y = imbalanced()
    if make is lightgbm_objective:
        settings = {
            "objective": make("f1"),
            "learning_rate": 0.1,
            "verbosity": -1,
            "num_threads": 1,
        }
        z = lightgbm.train(settings, lightgbm.Dataset(x, y), 1).predict(x)
    else:
        data = xgboost.DMatrix(x, y)
        settings = {"eta": 0.1, "base_score": 0, "min_child_weight": 1e-3, "nthread": 1}
        z = xgboost.train(settings, data, 1, obj=make("f1")).predict(data)
    assert 0.01 < np.abs(z).max() <= 0.1 + 1e-6


def test_early_stopping_watches_the_metric_in_both_libraries():
    x, y = imbalanced(800)
    train, rest = slice(0, 500), slice(500, 800)
    seen = {}
    rows = lightgbm.Dataset(x[train], y[train])
    objective = lightgbm_objective("f1")
    booster = lightgbm.train(
        {"objective": objective, "metric": "none", "verbosity": -1, "num_threads": 1},
        rows,
        60,
        valid_sets=[rows.create_valid(x[rest], y[rest])],
        feval=objective.evaluate,
        callbacks=[
            lightgbm.early_stopping(10, verbose=False),
            lightgbm.record_evaluation(seen),
        ],
    )
    history = seen["valid_0"]["f1"]
    assert booster.best_iteration == int(np.argmax(history)) + 1
    decided = booster.predict(x[rest], num_iteration=booster.best_iteration) >= 0
    assert max(history) == pytest.approx(f1_score(y[rest], decided), abs=1e-12)

    seen = {}
    objective = xgboost_objective("f1")
    data = xgboost.DMatrix(x[rest], y[rest])
    booster = xgboost.train(
        {"base_score": 0, "min_child_weight": 1e-3, "disable_default_eval_metric": True},
        xgboost.DMatrix(x[train], y[train]),
        60,
        obj=objective,
        custom_metric=objective.evaluate,
        evals=[(data, "rest")],
        maximize=True,
        early_stopping_rounds=10,
        evals_result=seen,
        verbose_eval=False,
    )
    history = seen["rest"]["f1"]
    assert booster.best_iteration == int(np.argmax(history))
    decided = booster.predict(data, iteration_range=(0, booster.best_iteration + 1)) >= 0
    assert max(history) == pytest.approx(f1_score(y[rest], decided), abs=1e-6)


# A warning of LightGBM 4.6 about itself.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_the_wrappers_of_both_libraries_train_the_native_model():
    x, y = imbalanced()
    w = np.linspace(0.5, 2, len(y))
    objective = lightgbm_objective("f1")
    wrapped = lightgbm.LGBMClassifier(objective=objective, n_estimators=20, verbosity=-1, n_jobs=1)
    wrapped.fit(x, y, sample_weight=w)
    settings = {"objective": objective, "verbosity": -1, "num_threads": 1}
    native = lightgbm.train(settings, lightgbm.Dataset(x, y, weight=w), 20)
    np.testing.assert_array_equal(wrapped.predict(x, raw_score=True), native.predict(x))

    objective = xgboost_objective("f1")
    wrapped = xgboost.XGBClassifier(
        objective=objective,
        eval_metric=objective.evaluate,
        n_estimators=20,
        n_jobs=1,
        min_child_weight=1e-3,
        callbacks=[xgboost.callback.EarlyStopping(rounds=20, maximize=True)],
    )
    wrapped.fit(x, y, sample_weight=w, eval_set=[(x, y)], verbose=False)
    data = xgboost.DMatrix(x, y, weight=w)
    settings = {"base_score": 0, "min_child_weight": 1e-3, "nthread": 1}
    native = xgboost.train(settings, data, 20, obj=objective)
    np.testing.assert_allclose(
        wrapped.get_booster().predict(data, output_margin=True), native.predict(data), atol=1e-6
    )
    history = wrapped.evals_result()["validation_0"]["f1"]
    last = wrapped.get_booster().predict(data, output_margin=True) >= 0
    assert history[-1] == pytest.approx(f1_score(y, last), abs=1e-6)


def recommended():
    """The settings of the docstring of ``xgboost_objective``, after its own lines were run."""
    names = {"xgboost_objective": xgboost_objective}
    for example in doctest.DocTestParser().get_examples(xgboost_objective.__doc__):
        exec(example.source, names)
    return names["settings"]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_what_the_docstrings_recommend_trains_the_same_model_through_every_interface():
    x, y = imbalanced()
    data, settings = xgboost.DMatrix(x, y), {**recommended(), "max_depth": 4, "n_jobs": 1}
    objective = xgboost_objective("f1")
    native = xgboost.train(settings, data, 20, obj=objective)
    wrapped = xgboost.XGBClassifier(**{**settings, "objective": objective}, n_estimators=20)
    wrapped.fit(x, y)
    p = native.predict(data)
    np.testing.assert_allclose(wrapped.predict_proba(x)[:, 1], p, atol=1e-6)
    np.testing.assert_array_equal(wrapped.predict(x), p >= 0.5)
    assert f1_score(y, wrapped.predict(x)) > 0.8
    # The first gradient is that of scores of 0.
    one = xgboost.train({**settings, "eta": 1e-6}, data, 1, obj=objective)
    np.testing.assert_allclose(one.predict(data, output_margin=True), 0, atol=1e-5)

    objective = lightgbm_objective("f1", threshold=0.3)
    settings = {"n_estimators": 60, "verbosity": -1, "n_jobs": 1}
    wrapped = lightgbm.LGBMClassifier(objective=objective, **settings)
    z = wrapped.fit(x, y).predict(x, raw_score=True)
    assert f1_score(y, z >= np.log(0.3 / 0.7)) > 0.8


@pytest.mark.parametrize("base_score", [0, 1e-9])
def test_a_base_score_that_leaves_no_gradient_is_refused(base_score):
    x, y = imbalanced()
    model = xgboost.XGBClassifier(objective=xgboost_objective("f1"), base_score=base_score)
    with pytest.raises(ValueError, match=r"Set base_score=0\.5"):
        model.fit(x, y)


# --- several workers ------------------------------------------------------------------------------


# Uneven: the first worker has no row of the last class, or no row at all.
UNEVEN = [("f1", 2, 0), ("mcc", 3, 30)]  # metric, classes, rows of the first


def sorted_problem(classes):
    z, y, w = problem(classes, n=101)
    order = np.argsort(y, kind="stable")
    return z[order], y[order], w.astype(np.float32)[order]


def gradients_on_worker(rank, port, results):
    from xgboost import collective

    settings = {
        "dmlc_tracker_uri": "127.0.0.1",
        "dmlc_tracker_port": port,
        "dmlc_task_id": str(rank),
    }
    found = []
    with collective.CommunicatorContext(**settings):
        for metric, classes, first in UNEVEN:
            rows = slice(first, None) if rank else slice(first)
            z, y, w = (a[rows] for a in sorted_problem(classes))
            data = xgboost.DMatrix(np.zeros((len(y), 1)), y, weight=w)
            objective = xgboost_objective(metric)
            found.append((objective(z, data)[0], objective.evaluate(z, data)[1]))
    results.put((rank, found))


def test_gradients_of_two_workers_are_those_of_one_process():
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(n_workers=2, host_ip="127.0.0.1")
    tracker.start()
    port = tracker.worker_args()["dmlc_tracker_port"]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=gradients_on_worker, args=(i, port, results)) for i in (0, 1)]
    for worker in workers:
        worker.start()
    got = dict(results.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join()
    for (metric, classes, first), *found in zip(UNEVEN, got[0], got[1], strict=True):
        z, y, w = sorted_problem(classes)
        gradients, values = zip(*found, strict=True)
        whole = xgboost_objective(metric)
        wanted, _ = whole(y, z, sample_weight=w)
        alone, _ = whole(y[first:], z[first:], sample_weight=w[first:])
        np.testing.assert_allclose(np.concatenate(gradients), wanted, rtol=0, atol=1e-12)
        assert (np.abs(gradients[1] - alone).max() > 1e-3) == (first > 0)  # others' rows do count
        value = whole.evaluate(y, z, sample_weight=w)
        assert values == pytest.approx([value, value], abs=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask_training_on_two_workers_gives_the_model_of_one_process():
    array = pytest.importorskip("dask.array")
    from distributed import Client, LocalCluster
    from xgboost import dask as on_dask

    x, y = imbalanced(600)
    x = np.round(x * 2).clip(-6, 6)  # few values: every worker finds the same bins
    settings = {**recommended(), "eta": 0.3, "max_depth": 3, "nthread": 1}
    data = xgboost.DMatrix(x, y)
    single = xgboost.train(settings, data, 10, obj=xgboost_objective("f1"))
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        parts = [array.from_array(a, chunks=(150, *a.shape[1:])) for a in (x, y)]
        rows = on_dask.DaskDMatrix(client, *parts)
        trained = on_dask.train(
            client, settings, rows, num_boost_round=10, obj=xgboost_objective("f1")
        )
    together = trained["booster"]
    one, two = single.trees_to_dataframe(), together.trees_to_dataframe()
    assert len(one) > 50
    assert one[["Tree", "Node", "Feature", "Split", "Yes"]].equals(
        two[["Tree", "Node", "Feature", "Split", "Yes"]]
    )
    np.testing.assert_allclose(together.predict(data), single.predict(data), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_lightgbm_on_dask_is_refused_in_one_line():
    """Its workers cannot sum their counts: F1 would silently be that of a part of the rows."""
    array = pytest.importorskip("dask.array")
    from distributed import Client
    from lightgbm import DaskLGBMClassifier

    x, y = imbalanced(60)
    quiet = {"dashboard_address": None, "processes": False, "n_workers": 1}
    with Client(threads_per_worker=1, **quiet) as client:
        parts = [array.from_array(a, chunks=(60, *a.shape[1:])) for a in (x, y)]
        model = DaskLGBMClassifier(
            client=client, objective=lightgbm_objective("f1"), n_estimators=2, verbosity=-1
        )
        with pytest.raises(ValueError, match=r"rows of one worker only.*xgboost_objective") as e:
            model.fit(*parts)
    assert "\n" not in str(e.value)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", OBJECTIVES)
def test_mistakes_are_named(make):
    y, z = np.array([0, 1, 1]), np.array([0.5, -1.0, 2.0])
    with pytest.raises(ValueError, match="Did you mean 'f1'"):
        make("f1_scor")
    with pytest.raises(ValueError, match="average=None"):
        make(ss.F1(average=None))
    with pytest.raises(ValueError, match=r"threshold must be in \(0, 1\)"):
        make("f1", threshold=1.0)
    with pytest.raises(ValueError, match="step must have a gradient"):
        make("f1", step=ss.HardStep())
    with pytest.raises(ValueError, match="step must be a step"):
        make("f1", step="linear")
    with pytest.raises(ValueError, match="Map -1 to 0"):
        make("f1")(2 * y - 1, z)
    with pytest.raises(ValueError, match="first bad row is 1"):
        make("f1")(y, np.array([0.0, np.nan, 1.0]))
    with pytest.raises(ValueError, match="not negative"):
        make("f1")(y, z, np.array([1.0, -1.0, 1.0]))
    with pytest.raises(ValueError, match="zero everywhere"):
        make("f1")(y, z, np.zeros(3))
    with pytest.raises(ValueError, match="classes 0 to 2"):
        make("f1")(np.array([0, 1, 3]), np.zeros((3, 3)))
    with pytest.raises(ValueError, match="it raised"):
        make(lambda c: c.nonsense)(y, z)
