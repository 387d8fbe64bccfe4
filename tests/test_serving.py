"""docs/serving.md runs as it stands, and so does the server in examples/serving.py."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import softset as ss

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "serving.py"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_code_on_the_page_runs(tmp_path, monkeypatch):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install softset[onnx]")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    assert len(BLOCKS) == 5
    for block in BLOCKS:
        exec(block, names)
    model, frame = names["model"], names["frame"]
    assert names["decided"] == model.predict(frame).tolist()
    assert {"churn", "stay"} == set(names["decided"])
    np.testing.assert_allclose(names["probabilities"], model.predict_proba(frame), atol=1e-12)


def test_onnxruntime_takes_six_lines():
    (block,) = [b for b in BLOCKS if "onnxruntime" in b]
    assert len([line for line in block.splitlines() if line]) == 6


def test_links_of_the_page_lead_somewhere():
    links = re.findall(r"\]\(([\w./-]+)\)", PAGE)
    assert links
    assert all((ROOT / "docs" / link).exists() for link in links)


class HTTPError(Exception):
    """Stands in for FastAPI's."""

    def __init__(self, status_code, detail):
        super().__init__(status_code, detail)
        self.status_code = status_code


class App:
    """Stands in for FastAPI: it keeps nothing, and leaves the functions as they are."""

    def post(self, path):
        return lambda function: function


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A small model."""
    random = np.random.RandomState(0)
    frame = pd.DataFrame({"x": random.randn(60), "color": ["red", "green", "blue"] * 20})
    frame["note"] = np.where(np.arange(60) % 7 == 0, np.nan, random.randn(60))
    y = np.where(frame["x"] > 0, "yes", "no")
    path = tmp_path_factory.mktemp("serving") / "model.softset"
    ss.train_model(frame, y, recipe="linear-tuned").save(path)
    return path


def load_example(monkeypatch, path):
    monkeypatch.setenv("MODEL", str(path))
    found = importlib.util.spec_from_file_location("serving", EXAMPLE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


ROWS = [
    {"x": 1.5, "color": "red", "note": None},
    {"x": -2.0, "color": "blue", "note": 0.25},
    {"x": 0.1, "color": "red", "note": -1},
]


def check(answer, path):
    model = ss.load_model(path)
    frame = pd.DataFrame(ROWS)
    assert answer["classes"] == model.classes_.tolist()
    assert answer["decision"] == model.predict(frame).tolist()
    np.testing.assert_allclose(answer["p"], model.predict_proba(frame), rtol=1e-12)


def test_the_function_of_the_server_without_fastapi(monkeypatch, path):
    stub = types.ModuleType("fastapi")
    stub.FastAPI, stub.HTTPException = App, HTTPError
    monkeypatch.setitem(sys.modules, "fastapi", stub)
    module = load_example(monkeypatch, path)
    check(module.predict(ROWS), path)
    with pytest.raises(HTTPError) as error:
        module.predict([{"unknown": 1}])
    assert error.value.status_code == 422


def test_the_server_over_http(monkeypatch, path):
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    pytest.importorskip("httpx", reason="httpx is not installed")
    testclient = pytest.importorskip("fastapi.testclient")
    client = testclient.TestClient(load_example(monkeypatch, path).app)
    found = client.post("/predict", json=ROWS)
    assert found.status_code == 200
    check(found.json(), path)
    missing = client.post("/predict", json=[{"unknown": 1}])
    assert missing.status_code == 422
    assert "of the training data are missing" in missing.json()["detail"]


def test_a_row_means_the_same_alone_and_among_others(path):  # D20
    model = ss.load_model(path)
    odd = [{"x": "abc", "color": 7, "note": True}, {"x": None, "color": None, "note": "0.5"}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        together = model.predict_proba([*ROWS, *odd])
        for row, p in zip([*ROWS, *odd], together, strict=True):
            np.testing.assert_array_equal(model.predict_proba([row])[0], p)
    short = {"x": 1.0, "color": "red"}
    with pytest.raises(ValueError, match="'note' of the training data are missing"):
        model.predict([short])
    with pytest.raises(ValueError, match="row 4 has no 'note'"):
        model.predict([*ROWS, short])


@pytest.mark.parametrize(
    ("header", "status"),
    [((b"content-length", b"80000000"), 413), ((b"transfer-encoding", b"chunked"), 411)],
)
def test_a_long_request_is_not_read(monkeypatch, path, header, status):  # D26
    stub = types.ModuleType("fastapi")
    stub.FastAPI, stub.HTTPException = App, HTTPError
    monkeypatch.setitem(sys.modules, "fastapi", stub)
    module, sent = load_example(monkeypatch, path), []

    async def send(message):
        sent.append(message)

    asyncio.run(module.server({"type": "http", "headers": [header]}, None, send))
    assert sent[0]["status"] == status
