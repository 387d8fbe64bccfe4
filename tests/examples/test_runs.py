from __future__ import annotations

import json

import pytest


def rows(**more):
    return [
        {"loss": loss, "seed": seed, "test": value, "core_seconds": 30.0} | more
        for loss, values in {"a": (0.5, 0.7), "b": (0.6, 0.9)}.items()
        for seed, value in enumerate(values)
    ]


def test_what_is_in_the_file_is_not_run_again(tmp_path, capsys):
    import runs  # noqa: PLC0415

    out, ran = tmp_path / "runs.jsonl", []

    def run(key):
        ran.append(key["seed"])
        return {"test": key["seed"] / 10}

    first = runs.run_all([{"loss": "a", "seed": 0}], run, out)
    with out.open("a") as file:
        file.write('{"loss": "a", "se')  # cut off when it was killed
    keys = [{"loss": "a", "seed": seed} for seed in (0, 1)]
    both = runs.run_all(keys, run, out)
    assert ran == [0, 1]
    assert both[0] == first[0]
    assert [row["test"] for row in both] == [0.0, 0.1]
    assert "2/2 a 1" in capsys.readouterr().err
    again = runs.run_all(keys, run, out)
    assert again == both
    assert ran == [0, 1]


def test_gains_are_of_the_same_run():
    import runs  # noqa: PLC0415

    text = runs.table(rows(set="s"), ["a", "b"], {"test": "F1"}, "a")
    assert "| a | 0.600 |  |" in text
    # gains 0.1 and 0.2, t = 12.706 with one degree of freedom
    assert "| b | 0.750 | +0.150 (-0.485 … +0.785) |" in text
    assert text.endswith("2 runs of each, 2.0 core-minutes.")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--data", "nowhere"], "--data must be the folder of the data, got nowhere"),
        (["--data", ".", "--losses", "c"], "--losses must be of a, b, got c"),
    ],
)
def test_bad_arguments_are_one_line(argv, message, capsys, monkeypatch):
    import runs  # noqa: PLC0415

    monkeypatch.delenv("SOFTSET_DATA", raising=False)
    with pytest.raises(SystemExit) as stopped:
        runs.arguments(runs.parser("about", "set"), argv, ["a", "b"])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_lines_are_json(tmp_path):
    import runs  # noqa: PLC0415

    out = tmp_path / "runs.jsonl"
    runs.run_all([{"loss": "a", "seed": 0}], lambda key: {"test": 0.5}, out)
    assert json.loads(out.read_text())["test"] == 0.5
