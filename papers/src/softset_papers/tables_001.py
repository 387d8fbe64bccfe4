"""The tables of paper 001 (the NeurIPS text) on tabular data: values as printed there.

Its tables 3 and 4 are not those of paper 000: 3 is on graphs, 4 is 000's table 3.
"""

from __future__ import annotations

from softset_papers.specification import Table, read_values
from softset_papers.tables_000 import BETA_ROWS, BETAS, FOUR, LINEAR, MAMMOGRAPHY, THREE, _proposed

_TABLE_1 = {
    "CocktailParty": """
        f1: 0.75±0.01 0.85±0.01 0.82±0.01
        adversarial: 0.30±0.06 0.76±0.01 0.60±0.02
        accuracy: 0.70±0.02 0.85±0.01 0.78±0.01
        auroc: 0.51±0.01 0.41±0.01 0.57±0.00
        wmw: 0.01±0.03 0.70±0.03 0.50±0.00
        bce: 0.70±0.02 0.85±0.01 0.78±0.01
        """,
    "Adult": """
        f1: 0.63±0.02 0.78±0.04 0.78±0.02
        adversarial: 0.16±0.02 0.78±0.00 0.55±0.01
        accuracy: 0.35±0.04 0.81±0.01 0.61±0.02
        auroc: 0.42±0.01 0.32±0.02 0.55±0.01
        wmw: 0.00±0.00 0.76±0.00 0.50±0.00
        bce: 0.26±0.06 0.80±0.01 0.58±0.02
        """,
    "Mammography": """
        f1: 0.63±0.04 0.98±0.00 0.78±0.03
        adversarial: 0.46±0.08 0.98±0.00 0.66±0.04
        accuracy: 0.00±0.00 0.97±0.00 0.50±0.00
        auroc: 0.11±0.01 0.18±0.04 0.57±0.02
        wmw: 0.00±0.01 0.88±0.12 0.50±0.00
        bce: 0.56±0.11 0.99±0.00 0.71±0.06
        """,
    "Kaggle": """
        f1: 0.83±0.02 1.00±0.00 0.90±0.02
        adversarial: 0.76±0.06 1.00±0.00 0.83±0.04
        accuracy: 0.62±0.33 1.00±0.00 0.78±0.15
        auroc: 0.06±0.01 0.11±0.00 0.55±0.00
        wmw: 0.00±0.00 0.93±0.15 0.50±0.00
        bce: 0.50±0.33 1.00±0.00 0.73±0.16
        """,
}
_TABLE_4 = """
    f1: 0.61±0.06 0.57±0.06 0.56±0.06 0.70±0.06 0.55±0.07
    f2: 0.63±0.04 0.67±0.04 0.69±0.04 0.57±0.05 0.71±0.04
    f3: 0.57±0.03 0.69±0.02 0.75±0.02 0.44±0.04 0.81±0.03
    """

TABLES = (
    Table(
        "001-table-1",
        "Losses with the linear step, and baselines (the runs of 000-table-1)",
        FOUR,
        _proposed(LINEAR),
        THREE,
        {title: read_values(THREE, text) for title, text in _TABLE_1.items()},
    ),
    Table(
        "001-table-4",
        "F-beta on Mammography, linear step (the runs of 000-table-3)",
        (MAMMOGRAPHY,),
        BETA_ROWS,
        BETAS,
        {"Mammography": read_values(BETAS, _TABLE_4)},
    ),
)
