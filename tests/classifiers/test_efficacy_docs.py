"""The code in docs/efficacy.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from softset.classifiers import ensemble

DOCS = Path(__file__).parents[2] / "docs" / "efficacy.md"


def test_code_in_the_docs_runs(monkeypatch):
    monkeypatch.setattr(ensemble, "KINDS", {"linear": ensemble.KINDS["linear"]})  # for time
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert names["model"].gain_.gain > 0
    assert "linear" in names["best"].summary()
