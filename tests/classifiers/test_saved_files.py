"""Model files of another version: one line that says what to do."""

from __future__ import annotations

import numpy as np
import pytest

import softset as ss
from softset.storage.container import read_file, write_file


@pytest.mark.parametrize("gone", ["cut", "targets"])
def test_a_classifier_without_what_this_version_saves_is_refused(gone, tmp_path):
    x = np.random.RandomState(0).randn(60, 2)
    ss.MetricLinearClassifier("f1").fit(x, x[:, 0] > 0).save(tmp_path / "old")
    content = read_file(tmp_path / "old", "MetricLinearClassifier")
    del content["fitted"][gone]
    write_file(tmp_path / "old", "MetricLinearClassifier", content)
    with pytest.raises(ss.SavedFileError) as error:
        ss.MetricLinearClassifier.load(tmp_path / "old")
    assert str(error.value) == (
        "old does not hold a whole MetricLinearClassifier (KeyError): it is damaged, or of another "
        "version of softset. Make it again."
    )
