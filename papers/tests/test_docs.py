"""The pages show what the committed results say; every verdict rests on a table that is there."""

import re
import subprocess
from pathlib import Path

import pytest

from softset_papers.pages.pictures import draw_verdicts
from softset_papers.pages.places import fill_in
from softset_papers.pages.summary import stale_rows
from softset_papers.results import read_records
from softset_papers.runner import Effort, plan
from softset_papers.tables import all_tables
from softset_papers.verdicts.claims import judge_claims

DOCS = Path(__file__).parents[1] / "docs"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
PAGES = [name for name, text in TEXTS.items() if "<!-- end -->" in text]
NOT_AVAILABLE = {"caltech-256"}
RECORDS = read_records(DOCS / "results")
JUDGED = judge_claims(RECORDS)


# --- pages of results -----------------------------------------------------------------------------


def test_every_paper_has_a_page():
    names = [*(f"paper-00{i}.md" for i in range(5)), "papers.md", "theorems.md"]
    assert names == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_tables_of_the_page_are_those_of_the_results(page):
    """``softset paper pages papers/docs --output papers/docs/results`` was the last to write it."""
    assert fill_in(TEXTS[page], RECORDS, JUDGED) == TEXTS[page]


def test_the_picture_of_the_verdicts_is_of_the_results():
    pytest.importorskip("matplotlib")
    drawn = draw_verdicts(JUDGED)
    assert (DOCS / "results" / "verdicts.svg").read_text(encoding="utf-8") == drawn


@pytest.mark.parametrize("page", TEXTS)
def test_what_is_not_folded_is_a_short_page(page):
    """Below 40 KB without the folds, which are closed in a browser."""
    folds = re.compile(r"<details>.*?</details>", re.DOTALL)
    assert len(folds.sub("", TEXTS[page]).encode()) < 40_000
    assert TEXTS[page].count("<details>") == TEXTS[page].count("</details>")


def test_every_result_names_its_commit():
    assert all(re.fullmatch(r"[0-9a-f]{10}\+?", r.result["commit"]) for r in RECORDS)


def test_the_commits_of_the_results_are_in_the_history():
    def git(*words):
        command = ["git", "-C", str(DOCS), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("not in a repository with its whole history")
    commits = {r.result["commit"].rstrip("+") for r in RECORDS}
    gone = [c for c in commits if git("merge-base", "--is-ancestor", c, "HEAD").returncode]
    assert gone == []


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", TEXTS[page]):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        path = DOCS / (file or page)
        assert path.is_file(), target
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), target


def anchors(text: str) -> set[str]:
    """Ids that are written, and those that a heading gets."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


# --- rows ----------------------------------------------------------------------------------------


def test_no_row_is_stale():
    """No row was made by an earlier rule or with a loss that has changed since."""
    assert [s.command for s in stale_rows(list(all_tables().values()), RECORDS)] == []


def test_no_row_is_missing():
    """Every row that a specification has is in the results."""
    known = [r.run for r in RECORDS]
    for table in all_tables().values():
        missing = [
            (p.block.key, p.row.id)
            for p in plan(table, Effort())
            if table.kind not in ("claim", "figure")
            and p.block.dataset not in NOT_AVAILABLE
            and p.run.get("seeds", [0])
            and not any(covers(run, p.run) for run in known)
        ]
        assert missing == [], table.id


def covers(run: dict, wanted: dict) -> bool:
    """Whether a run is the wanted one, perhaps with more trials."""
    if {k: v for k, v in run.items() if k != "seeds"} != {
        k: v for k, v in wanted.items() if k != "seeds"
    }:
        return False
    return set(wanted.get("seeds", ())) <= set(run.get("seeds", ()))


# --- how-to ---------------------------------------------------------------------------------------


def test_the_examples_of_the_baselines_run(capsys):
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", TEXTS["baselines.md"], re.DOTALL):
        exec(block, names)
    assert names["loss"].isfinite()
    assert "called positive" in capsys.readouterr().out
