"""What decisions cost on test rows, and empulse where it is not installed."""

from __future__ import annotations

import numpy as np

import row_costs


def test_missed_rows_cost_their_amount_and_false_alarms_five():
    d = {"y_test": np.array([1, 1, 0, 0]), "amount_test": np.array([10.0, 100.0, 7.0, 3.0])}
    assert row_costs.spent(np.array([0, 1, 1, 0]), d) == (10 + 5) / 4
    assert row_costs.spent(np.zeros(4), d) == 110 / 4


def test_empulse_is_left_out_with_a_line_where_it_is_not_installed(tmp_path, capsys):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    row_costs.run_empulse(str(python), tmp_path / "results.jsonl")
    assert "empulse is left out" in capsys.readouterr().out
    assert not (tmp_path / "results.jsonl").exists()
