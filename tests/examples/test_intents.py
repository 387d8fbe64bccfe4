from __future__ import annotations

import csv

import numpy as np
import pytest


@pytest.fixture
def questions(tmp_path):
    """Six made-up intents, each with words of its own."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 60), ("test", 20)):
        with open(tmp_path / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["text", "category"])
            for k in range(6):
                for _ in range(n):
                    words = [f"word{k}{rng.integers(3)}", f"noise{rng.integers(9)}", "the"]
                    out.writerow([", ".join(words), f"intent {k}"])
    return tmp_path


def test_it_runs(questions, capsys):
    import intents  # noqa: PLC0415

    intents.main(["--data", str(questions), "--quick"])
    said = capsys.readouterr().out
    assert "All training rows: F1 of test rows" in said
    assert "Long-tailed: F1 of test rows" in said
    assert said.count("| logit-adjusted + soft F1 |") == 2


def test_the_tail_is_thin_and_no_class_is_lost():
    import intents  # noqa: PLC0415

    y = np.repeat(np.arange(20), 100)
    kept = np.sort(np.bincount(y[intents.thinned(y, 0)]))
    assert kept[0] == intents.FEWEST
    assert kept[-1] == 100
    assert len(kept) == 20


@pytest.mark.parametrize("loss", ["cross-entropy", "soft F1"])
def test_intents_that_words_tell_are_learnt(questions, loss):
    import intents  # noqa: PLC0415

    found = intents.run(intents.load(questions), loss, 0, False, 40)
    assert found["plain"] > 0.8  # of six classes by chance: 0.17
