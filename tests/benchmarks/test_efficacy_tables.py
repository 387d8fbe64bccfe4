"""What is measured on fewer sets has a table of its own, and takes no set from the others."""

import json
import sys

import numpy as np

import efficacy_tables

CUTS = {
    "MetricEnsembleClassifier": ["own"],
    "MetricMLPClassifier": ["own"],
    "forest": ["half", "ours", "sklearn"],
    "mlp": ["ours"],
}


def lines(random):
    for number in range(12):
        for split in range(3):
            first = {"half": "confirm", "set": f"s{number}", "split": split, "rows": 100}
            first |= {"positives": 20, "metric": "f1", "seconds": 1.0}
            models = {**CUTS, **({"flaml": ["half", "ours"]} if number < 7 and split < 2 else {})}
            for model, cuts in models.items():
                for cut in cuts:
                    yield {**first, "model": model, "cut": cut, "value": round(random.rand(), 3)}


def test_automl_has_its_own_table(tmp_path, monkeypatch, capsys):
    out, diagram = tmp_path / "out.jsonl", tmp_path / "ranks.svg"
    rows = list(lines(np.random.RandomState(0)))
    out.write_text("".join(json.dumps(r) + "\n" for r in rows))
    monkeypatch.setattr(sys, "argv", ["", "--out", str(out), "--diagram", str(diagram)])
    efficacy_tables.main()
    said = capsys.readouterr().out
    assert "12 sets, splits of each: 3 or more" in said
    assert "AutoML, 7 sets, 14 splits in all" in said
    every, automl = said.split("AutoML, ")
    assert "flaml" not in every
    assert "flaml" not in diagram.read_text()
    some = [r for r in rows if r["set"] in {f"s{k}" for k in range(7)} and r["split"] < 2]
    mean = np.mean([r["value"] for r in some if r["model"] == "MetricEnsembleClassifier"])
    assert f"| MetricEnsembleClassifier, own | {mean:.4f} |" in automl
