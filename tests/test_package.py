from __future__ import annotations

import operator
import subprocess
import sys

import pytest

import softset
import softset as ss


def python(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_import_pulls_in_neither_torch_nor_scikit_learn():
    loaded = python(
        "import sys, softset; print([m for m in ('torch', 'sklearn') if m in sys.modules])"
    )
    assert loaded == "[]"


def test_the_core_imports_neither_scikit_learn_nor_the_compiler():
    """Which takes as long to import as the rest of torch."""
    code = "import sys, torch, softset as s; z = torch.zeros(4, requires_grad=True)"
    code += "; s.MetricLoss()(z, torch.tensor([0, 1, 0, 1])).backward(); s.best_offsets"
    code += "; s.Annealing(); print([m for m in ('sklearn', 'torch._dynamo') if m in sys.modules])"
    assert python(code) == "[]"


def test_every_public_name_loads_and_has_a_docstring():
    for name in ss.__all__:
        value = getattr(ss, name)
        assert name in dir(ss) or name == "__version__"
        if callable(value):
            assert value.__doc__, name
    with pytest.raises(AttributeError, match="attribute f1"):
        _ = ss.f1


@pytest.mark.parametrize("name", softset._RENAMED)
def test_a_name_of_version_0_2_says_what_replaces_it(name):
    with pytest.raises(AttributeError, match=f"softset.{name} is now "):
        getattr(ss, name)
    now = softset._RENAMED[name].split("(")[0].removeprefix("softset.")
    if not now.startswith("softset_papers"):
        assert operator.attrgetter(now)(ss) is not None
