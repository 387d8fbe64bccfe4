"""Each task does what its name says, and is its name to files and users."""

import copy
import json
import pickle

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax

from softset.tasks import BINARY, MULTICLASS, MULTILABEL, TASKS, Task, get_task, task_of

Z = np.array([[2.0, -1.0, 0.5], [-3.0, 0.0, 0.25]])


@pytest.mark.parametrize("task", TASKS.values(), ids=str)
def test_a_task_is_its_name_wherever_it_goes(task):
    assert get_task(str(task)) is task
    assert get_task(task) is task
    assert json.loads(json.dumps(task)) == task == task.name
    for other in (pickle.loads(pickle.dumps(task)), copy.deepcopy(task)):
        assert isinstance(other, type(task))
        assert other == task


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'multilabel'"):
        get_task("multi-label")


def test_the_task_of_a_target():
    assert task_of(np.array([0, 1, 1]), 2) is BINARY
    assert task_of(np.array([0, 1, 2]), 3) is MULTICLASS
    assert task_of(np.zeros((4, 2), dtype=int), 2) is MULTILABEL


def test_links_are_the_logistic_function_and_the_softmax():
    for task, z in ((BINARY, Z[:, 0]), (MULTILABEL, Z)):
        np.testing.assert_allclose(task.probabilities(z), expit(z), rtol=1e-12)
        np.testing.assert_allclose(task.link(torch.from_numpy(z)), expit(z), rtol=1e-12)
        np.testing.assert_allclose(task.scores(expit(z)), z, rtol=1e-9)
    wanted = softmax(Z, axis=1)
    np.testing.assert_allclose(MULTICLASS.probabilities(Z), wanted, rtol=1e-12)
    np.testing.assert_allclose(MULTICLASS.link(torch.from_numpy(Z)), wanted, rtol=1e-12)
    np.testing.assert_allclose(MULTICLASS.scores(wanted), np.log(wanted), rtol=1e-9)


def test_decisions_at_a_cut():
    assert BINARY.decide(Z[:, 0], np.array(2.0)).tolist() == [1, 0]  # a score on the cut is 1
    assert MULTILABEL.decide(Z, np.array([0.0, 0.0, 0.3])).tolist() == [[1, 0, 1], [0, 1, 0]]
    assert MULTICLASS.decide(Z, np.array([0.0, 0.0, 2.0])).tolist() == [2, 2]
    assert MULTICLASS.one_hot(np.array([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    for task, z, cut in ((BINARY, Z[:, 0], 2.0), (MULTILABEL, Z, 0.0)):
        above = task.margin(z, np.array(cut)) > 0
        assert above.tolist() == (task.decide(z, np.array(cut)) == 1).tolist()
    none, every = (BINARY.margin(Z[:, 0], np.array(cut)) for cut in (np.inf, -np.inf))
    assert np.isfinite([none, every]).all()  # thresholds that no row, and every row, reaches
    assert (none < 0).all()
    assert (every > 0).all()


@pytest.mark.parametrize(
    ("task", "outputs", "shape", "targets"),
    [(BINARY, 1, (), [None]), (MULTICLASS, 3, (3,), [None]), (MULTILABEL, 3, (3,), [0, 1, 2])],
)
def test_sizes(task: Task, outputs, shape, targets):
    classes = 2 if task is BINARY else 3
    assert (task.outputs(classes), task.shape(classes), task.targets(classes)) == (
        outputs,
        shape,
        targets,
    )
    layout = {BINARY: (7,), MULTICLASS: (7, 3), MULTILABEL: (3, 7)}
    assert task.classes_in(torch.zeros(layout[task])) == outputs


def test_columns():
    p, y = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])
    assert BINARY.positive(p).tolist() == [0.1, 0.8]
    assert MULTICLASS.positive(p) is p
    assert MULTICLASS.target_of(y, 2).tolist() == [[1, 0], [0, 1]]
    assert BINARY.target_of(y, 2).tolist() == [[0], [1]]
    assert MULTICLASS.counts(np.array([2, 2, 0]), 4).tolist() == [1, 0, 2, 0]
    assert MULTILABEL.counts(np.array([[1, 0], [1, 1]]), 2).tolist() == [2, 1]
    assert MULTILABEL.joined([p[:, 0], p[:, 1]]).tolist() == p.tolist()
    assert BINARY.joined([p[:, 0]]).tolist() == [0.9, 0.2]
