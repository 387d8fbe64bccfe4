"""What the tests of comparisons share."""

from unittest.mock import patch

import pytest

from softset.comparison.fits import Sizes


@pytest.fixture(scope="module")
def small_models():
    """Candidates of fewer trees and networks, where how good they are is no matter."""

    def of(rows, quick):
        return Sizes(
            n_networks=2, patience=5, max_epochs=30, trees=25 if quick else 30, quick=quick
        )

    with patch.object(Sizes, "of", of):
        yield
