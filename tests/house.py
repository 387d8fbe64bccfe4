"""How large and how entangled the source is, in numbers: ``python -m tests.house`` prints them.

``tests/test_architecture.py`` asserts those that have a limit.
"""

from __future__ import annotations

import ast
import functools
import sys
import tokenize
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "softset"


@functools.cache
def trees() -> dict[Path, ast.Module]:
    return {p: ast.parse(p.read_text(encoding="utf-8")) for p in sorted(SOURCE.rglob("*.py"))}


def lines() -> int:
    return sum(len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCE.rglob("*.py"))


def code_lines() -> int:
    """Lines with a token that is neither a comment nor a docstring."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    count = 0
    for path, tree in trees().items():
        docs = {i for d in docstrings(tree) for i in range(d.lineno, (d.end_lineno or 0) + 1)}
        with path.open("rb") as file:
            used = {
                i
                for token in tokenize.tokenize(file.readline)
                if token.type not in (*skipped, tokenize.ENCODING, tokenize.ENDMARKER)
                for i in range(token.start[0], token.end[0] + 1)
            }
        count += len(used - docs)
    return count


def docstrings(tree: ast.Module) -> list[ast.Expr]:
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, nodes)
        and ast.get_docstring(node)
        and isinstance(node.body[0], ast.Expr)
    ]


def statements_per_line() -> float:
    count = sum(isinstance(n, ast.stmt) for tree in trees().values() for n in ast.walk(tree))
    count -= sum(len(docstrings(tree)) for tree in trees().values())
    return count / code_lines()


def docstring_lines_per_public_name() -> float:
    names = documented = 0
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                names += 1
                documented += len((ast.get_docstring(node) or "").splitlines())
    return documented / names


def annotations_with_any() -> int:
    """Annotations of arguments, results and variables that hold ``Any``."""
    found = 0
    for tree in trees().values():
        for node in ast.walk(tree):
            given = [getattr(node, "annotation", None), getattr(node, "returns", None)]
            found += sum(
                isinstance(part, ast.Name) and part.id == "Any"
                for each in given
                if each is not None
                for part in [*ast.walk(each)]
            )
    return found


def task_name_comparisons() -> int:
    """Comparisons with the name of a task outside ``tasks.py``."""
    from softset.tasks import TASKS  # noqa: PLC0415

    return sum(
        isinstance(node, ast.Compare)
        and any(isinstance(c, ast.Constant) and c.value in set(TASKS) for c in ast.walk(node))
        for path, tree in trees().items()
        if path.name != "tasks.py"
        for node in ast.walk(tree)
    )


def imports() -> dict[str, set[str]]:
    """What each module imports of the others, anywhere in it."""
    modules = {
        ".".join(("softset", *p.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): tree
        for p, tree in trees().items()
    }
    found: dict[str, set[str]] = {name: set() for name in modules}
    for name, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                inner = {f"{node.module}.{a.name}" for a in node.names} & set(modules)
                found[name] |= inner or {node.module}
        # A package that its own modules import is no step on the way.
        found[name] = {other for other in found[name] if not name.startswith(f"{other}.")}
    return found


def longest_chain() -> list[str]:
    """The longest way from one module to another through imports."""
    graph = imports()

    @functools.cache
    def chain(name: str) -> tuple[str, ...]:
        return (name, *max((chain(other) for other in graph[name]), key=len, default=()))

    return list(max((chain(name) for name in graph), key=len))


def modules_of_a_loss() -> list[str]:
    """The modules that ``MetricLoss("f1")`` goes through on its way to the kernel, in order."""
    import torch  # noqa: PLC0415

    import softset as ss  # noqa: PLC0415

    loss, z, y = ss.MetricLoss("f1"), torch.randn(64, requires_grad=True), torch.ones(64)
    loss(z, y).backward()  # what is made once is made here
    seen: dict[str, None] = {}

    def watch(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and SOURCE in path.parents and "run" not in seen:
            seen[str(path.relative_to(SOURCE))] = None
        if event == "call" and frame.f_code.co_name == "run":  # which calls C
            seen["run"] = None

    sys.setprofile(watch)
    try:
        loss(z, y)
    finally:
        sys.setprofile(None)
    return [name for name in seen if name != "run"]


def main() -> None:
    chain, walk = longest_chain(), modules_of_a_loss()
    print(f"lines {lines()}, of code {code_lines()}")
    print(f"statements per line of code {statements_per_line():.3f}")
    print(f"docstring lines per public name {docstring_lines_per_public_name():.2f}")
    print(f"comparisons of a task's name {task_name_comparisons()}")
    print(f"annotations with Any {annotations_with_any()}")
    print(f"longest import chain {len(chain)}: {' '.join(chain)}")
    print(f"modules of MetricLoss('f1') {len(walk)}: {' '.join(walk)}")


if __name__ == "__main__":
    main()
