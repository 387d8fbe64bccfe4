"""The code in docs/linear.md runs as it stands, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "linear.md"


def test_code_in_the_docs_runs():
    text = DOCS.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    (printed,) = re.findall(r"```\n(Scorecard.*?)\n```", text, re.DOTALL)
    assert str(names["card"]) == printed
    assert names["small"].coef_[0, 0] >= 0
    assert 0 < (names["small"].coef_ != 0).sum() < 20
