"""The code in docs/core.md runs as it stands, block after block."""

from __future__ import annotations

import re
from pathlib import Path

import torch

import softset as ss
from softset.metrics.registry import METRICS

DOCS = Path(__file__).parents[2] / "docs" / "core.md"


def test_code_in_the_docs_runs():
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, object] = {}
    torch.manual_seed(0)
    for block in blocks:
        exec(block, names)
    assert 0 < names["miou"] < 1
    assert names["counts"].tp.shape == (8,)
    for loss in ("loss", "by_image", "by_patient", "soft", "labels_loss", "tail", "lovasz"):
        assert torch.isfinite(names[loss])
    assert names["moving"].weights[0] == 0.5
    assert names["masks"].shape == names["scores"].shape


def test_names_in_the_docs_are_metrics():
    found = re.findall(r'`"([a-z_]+(?:\([\d., ]+\)|@\d+(?:_micro)?)?)"`', DOCS.read_text("utf-8"))
    known = [n for n in found if n in METRICS or "(" in n or "@" in n or n in ("dice", "miou")]
    assert len(known) >= 8
    for name in known:
        ss.get_metric(name)
