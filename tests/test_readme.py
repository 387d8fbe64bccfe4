"""The code in the README runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from tests.reference import random_problem

README = Path(__file__).parents[1] / "README.md"


def test_code_in_the_readme_runs():
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0.5).long()
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    names = {"loader": [(x, y)], "x_test": x, "y_test": y}
    exec(blocks[0], names)
    exec(blocks[1], names | {"X": x.numpy(), "y": y.numpy()})
    scores, labels = random_problem("binary")
    many, classes = random_problem("multiclass")
    names |= {"scores": scores, "y": labels}
    for line in blocks[2].splitlines():
        here = names | {"scores": many, "y": classes} if "best_offsets" in line else names
        exec(line, here)
        names["tau"] = here.get("tau")
    assert 0 < names["tau"] < 1
