from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse


@pytest.fixture
def rows(tmp_path):
    """Five made-up labels, each with a feature of its own."""
    rng = np.random.default_rng(0)
    arrays = {"labels": np.array(list("abcde"))}
    for part, n in (("train", 300), ("test", 200)):
        y = (rng.random((n, 5)) < 0.2).astype(np.uint8)
        x = sparse.csr_matrix(np.hstack([y, rng.random((n, 3)) < 0.1]).astype(np.float64))
        arrays |= {f"{part}_data": x.data, f"{part}_indices": x.indices}
        arrays |= {f"{part}_indptr": x.indptr, f"{part}_shape": x.shape}
        arrays[f"{part}_y"] = np.packbits(y, axis=1)
    np.savez(tmp_path / "yeast.npz", **arrays)
    return tmp_path


def test_it_runs(rows, capsys):
    import labels  # noqa: PLC0415

    labels.main(["--data", str(rows), "--sets", "yeast", "--quick"])
    said = capsys.readouterr().out
    assert "yeast: 300 + 200 rows, 5 labels" in said
    assert "| cross-entropy + soft F1 |" in said
    assert "| positives weighted |" in said


@pytest.mark.parametrize("loss", ["cross-entropy", "soft F1"])
@pytest.mark.parametrize("hidden", [[], [8]])
def test_labels_that_a_feature_tells_are_learnt(rows, loss, hidden):
    import labels  # noqa: PLC0415

    found = labels.run(labels.load(rows, "yeast"), loss, 0, hidden, 40)
    assert found["test"] > 0.95
    assert found["half"] > 0.8
