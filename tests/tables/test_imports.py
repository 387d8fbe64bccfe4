"""Reading a table loads neither torch nor the training loop."""

import subprocess
import sys

PROGRAM = """
import pkgutil, sys
import softset.tables
for module in pkgutil.walk_packages(softset.tables.__path__, "softset.tables."):
    __import__(module.name)
loaded = [m for m in sys.modules if m.startswith("softset.tables.")]
subpackages = {m.split(".")[1] for m in sys.modules if m.startswith("softset.") and "." in m}
heavy = {"torch", "lightgbm", "xgboost", "openpyxl"} & set(sys.modules)
print(len(loaded), sorted(subpackages), sorted(heavy))
"""


def test_tables_need_no_torch_and_no_later_subpackage():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    count, rest = run.stdout.strip().split(" ", 1)
    assert int(count) >= 18
    assert rest == "['checks', 'formats', 'storage', 'tables', 'tasks', 'typing'] []"
