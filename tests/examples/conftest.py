import sys
from pathlib import Path

import pytest

FOLDER = str(Path(__file__).parents[2] / "examples")


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch):
    """Examples find those beside them, as when they are run."""
    monkeypatch.syspath_prepend(FOLDER)
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:  # other folders have modules of these names
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(FOLDER):
            del sys.modules[name]
