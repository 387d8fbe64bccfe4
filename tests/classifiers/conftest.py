import pytest


@pytest.fixture(autouse=True)
def _quick(quick_parts):
    pass
