"""Processes of pytest-xdist share the cores: one thread each is faster than all threads each."""

import os

# Before NumPy, SciPy, LightGBM and PyTorch start theirs, and for the processes that tests start:
# threads that wait for a core busily take three times as much processor time as the work.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

# ruff: noqa: E402
import shutil
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)

# A shell that starts the tests in the background has them ignore Ctrl-C, and what they start too;
# some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run in CI; new ones every time at a desk.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data sets, which is not part of the project."""
    folder = Path(os.environ.get("SOFTSET_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("the real data sets are not here: set SOFTSET_DATA to their folder")
    return folder


@pytest.fixture
def quick_parts(monkeypatch):
    """Ensembles of small models that are fitted a few times only."""
    from softset.classifiers import ensemble  # noqa: PLC0415

    small = {
        "MetricLinearClassifier": {"cv": 2, "path": (0.03,)},
        "MetricBoostingClassifier": {"n_estimators": 10, "n_metric_estimators": 5},
        "MetricMLPClassifier": {"n_networks": 2, "max_epochs": 4},
    }

    def shrink(name, make):
        monkeypatch.setattr(ensemble, name, lambda *a, **given: make(*a, **given | small[name]))

    for name in small:
        shrink(name, getattr(ensemble, name))
    monkeypatch.setattr(ensemble, "TREES", 15)


BROWSER = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
BROWSER += ["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic"]


@pytest.fixture(scope="module")
def browser():
    """Chromium, where there is one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("SOFTSET_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    with playwright.sync_playwright() as p:
        found = found or p.chromium.executable_path
        if not os.path.exists(found):
            pytest.skip("Chromium is not installed: put it on the path or set SOFTSET_CHROMIUM")
        opened = p.chromium.launch(executable_path=found, args=BROWSER)
        yield opened
        opened.close()
