"""CocktailParty as graphs: agrees with the tabular set, and with the published counts."""

from __future__ import annotations

import numpy as np
import pytest

from softset_papers.datasets.graphs import load_graphs
from softset_papers.datasets.papers import load_paper_set


def test_graphs_hold_the_pairs_of_the_tabular_set(shared_data):
    pytest.importorskip("pyarrow")
    graphs = load_graphs(shared_data)
    assert graphs.people.shape == (320, 6, 4)
    assert graphs.pairs.sum() == 3346
    table = load_paper_set("cocktailparty", shared_data)
    np.testing.assert_array_equal(graphs.pairs.reshape(-1), 1 - table.y)
    # The distance of the first two people is that of the first pair (there: in centimetres).
    distance = np.linalg.norm(graphs.people[0, 0, :2] - graphs.people[0, 1, :2])
    assert 2 * abs(table.x[0, 0]) / 100 == pytest.approx(distance, rel=1e-5)
    np.testing.assert_allclose(graphs.people[..., :2].mean(1), 0, atol=1e-5)
    np.testing.assert_allclose((graphs.people[..., 2:] ** 2).sum(-1), 1, atol=1e-5)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"cocktailparty\.parquet"):
        load_graphs(tmp_path)
