"""docs/scale.md: its code runs, and the pieces of ``benchmarks/scale.py`` are right, whose numbers
it has."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import softset as ss
from softset.training.rare import rarity

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.fixture(scope="module")
def scale():
    path = Path(__file__).parents[2] / "benchmarks" / "scale.py"
    spec = importlib.util.spec_from_file_location("scale", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numbers_sent(scale):
    assert scale.numbers_sent("f1", "binary", 1) == 5
    assert scale.numbers_sent("f1", "multiclass", 10) == 41
    assert scale.numbers_sent("auroc", "binary", 1) == 1 + 4 * 99
    assert scale.numbers_sent("auroc", "multiclass", 10) == 1 + 4 * 990


def test_populations_are_populations(scale):
    for classes in (2, 3, 10):
        shares = scale.population(classes)
        assert shares.sum() == pytest.approx(1)
        assert (shares > 0).all()
        assert shares[0].sum() == pytest.approx(0.99)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_the_bound_of_theorem_5_8_holds(scale, classes, memory):
    shares = scale.population(classes, rare=0.6)
    errors, _ = scale.simulated(shares, 200, memory, 2000)
    rows = 200 / scale.running_share(memory, 1000)
    assert (errors > ss.losses.confusion_error_bound(rows, classes, 0.05)).mean() <= 0.05
    # and it is a bound of this estimate, not of one ten times as good
    assert (errors > ss.losses.confusion_error_bound(10 * rows, classes, 0.05)).mean() > 0.05


def test_a_running_mean_is_worth_so_many_batches(scale):
    assert scale.running_share(0.9, 10_000) == pytest.approx(0.1 / 1.9)
    assert scale.running_share(0.0, 1) == 1
    shares = scale.population(2, rare=0.4)
    one, _ = scale.simulated(shares, 500, 0.0, 4000)
    running, _ = scale.simulated(shares, 500, 0.9, 4000)
    assert (running**2).mean() / (one**2).mean() == pytest.approx(0.1 / 1.9, rel=0.1)


def test_the_spread_of_f1_by_its_slopes(scale):
    shares = scale.population(2, rare=0.1)
    _, f1 = scale.simulated(shares, 20_000, 0.0, 4000)
    assert f1.std() == pytest.approx(scale.spread_of_f1(shares, 20_000), rel=0.05)
    assert f1.mean() == pytest.approx(float(scale.f1_of_class_1(shares)), abs=0.005)
    counts = np.round(shares * 10_000)
    c = ss.Confusion.from_matrix(counts, task="binary")
    assert float(ss.F1()(c)) == pytest.approx(float(scale.f1_of_class_1(counts)))


def test_times_of_the_model(scale):
    # a short message costs hops, a long one bytes
    assert scale.tree_seconds(1000, 64) == pytest.approx(20 * scale.HOP, rel=0.01)
    assert scale.ring_seconds(1000, 4e9) == pytest.approx(2 * 4e9 / scale.WIRE, rel=0.05)


def test_the_page_quotes_the_warning():
    assert rarity(128, 0.0017) in PAGE.read_text(encoding="utf-8")


@pytest.mark.skipif(not dist.is_gloo_available(), reason="torch without gloo")
def test_code_on_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 7
    torch.manual_seed(0)
    x = torch.randn(2048, 3)
    y = (x[:, 0] > 1.5).long()
    model = torch.nn.Linear(3, 1)
    parts = list(zip(x.split(512), y.split(512), strict=True))
    names = {
        "ss": ss,
        "torch": torch,
        "DataLoader": DataLoader,
        "TensorDataset": TensorDataset,
        "DistributedDataParallel": DistributedDataParallel,
        "model": model,
        "loader": parts,
        "micro_batches": parts,
        "optimizer": torch.optim.SGD(model.parameters(), 0.1),
        "scaler": torch.amp.GradScaler("cpu"),
    }
    events = pd.DataFrame(torch.randn(400, 2).numpy(), columns=["a", "b"])
    Path("events").mkdir()
    events.assign(fraud=events["a"] > 0.7).to_parquet("events/1.parquet")
    dist.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", world_size=1, rank=0)
    try:
        for block in blocks:
            names |= {"x": x, "y": y, "blocks": [(a.numpy(), b.numpy()) for a, b in parts]}
            exec(block, names)
            if "train_model" in block:
                names["network"] = names["model"]
    finally:
        dist.destroy_process_group()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert int(y[next(iter(names["batches"]))].sum()) == 16
    assert (names["network"].predict(events) == (events["a"] > 0.7)).mean() > 0.9
    assert names["model"].score(x, y) > 0.9
    assert Path("run.checkpoint").exists()
