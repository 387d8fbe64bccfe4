"""scikit-learn's own tests of metrics, with our numbers in them (``adapter``)."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Fewer answers than this, and the adapter lets questions pass that it used to answer.
LEAST = {("classification", "ranking"): 450, ("common",): 3500}


def run(folder: Path, names: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """In a process of its own: functions of scikit-learn are replaced there."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    known = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    known["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.peers.adapter", "-c"]
    command += [str(folder / "pytest.ini"), "-p", "no:cacheprovider", "--tb=short", "-W", "ignore"]
    return subprocess.run(
        [*command, "--pyargs", *(f"sklearn.metrics.tests.test_{name}" for name in names)],
        cwd=folder,
        env=known | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "names",
    [
        ("classification", "ranking"),
        # Invariances, which are also those of tests/test_common.py and tests/properties.
        pytest.param(("common",), marks=pytest.mark.slow),
    ],
)
def test_scikit_learns_tests_of_metrics_hold_for_our_numbers(names, tmp_path):
    if importlib.util.find_spec("sklearn.metrics.tests") is None:
        pytest.skip("scikit-learn's own tests are not installed")
    done = run(tmp_path, names)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    (line,) = [x for x in done.stdout.splitlines() if x.startswith('{"answered"')]
    answered = json.loads(line)["answered"]
    assert sum(answered.values()) > LEAST[names]
