"""The code in docs/training.md runs as it stands, block after block."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from softset.training.recipes import RECIPES

DOCS = Path(__file__).parents[2] / "docs" / "training.md"


def test_the_page_lists_every_recipe():
    listed = re.findall(r'^\| `"([\w-]+)"`', DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(RECIPES)


def test_code_in_the_docs_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    torch.manual_seed(0)
    exec(blocks[0], names)
    assert names["model"].score(names["X"], names["y"]) > 0.4
    exec(blocks[1], names)
    assert names["trained"].scores(names["x"]).shape == (10, 3000)
    exec(blocks[2], names)
    assert max(names["history"]["validation_metric"]) > 0.3
