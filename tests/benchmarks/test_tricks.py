"""Each trick is still in the sources, so that the benchmark can take it out."""

from __future__ import annotations

import hatch_build
import pytest

from tricks import TRICKS


@pytest.mark.parametrize(("file", "line", "plain"), [t[1:] for t in TRICKS])
def test_a_trick_is_there_once(file, line, plain):
    text = (hatch_build.FOLDER / file).read_text()
    assert text.count(line) == 1
    assert plain not in text
