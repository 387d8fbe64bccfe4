"""The ladder in plain words: what to do, what it is worth, and what simplicity would cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from softset.comparison.ladder import Ladder, RungId, Simpler
from softset.comparison.statistics import Difference
from softset.tasks import Task

Outcome = Literal["clear", "unclear", "stay"]


@dataclass(frozen=True)
class Verdict:
    """``outcome`` is ``"clear"`` (use the winner), ``"unclear"`` (it is but the best guess) or
    ``"stay"`` (with the reference, which is then the winner); ``advice`` is said after it."""

    outcome: Outcome
    winner: str
    reference: str
    headline: str
    advice: str


def rung_names(label: str, task: Task, by_scores: bool) -> dict[RungId, str]:
    """What the rungs are called; ``label`` is the metric in running text."""
    cut = "largest probability" if task.exclusive else "cut at 0.5"
    return {
        "own": "your model as it is",
        "default": "trained as usual" if by_scores else cut,
        "tuned": "tuned offsets" if task.exclusive else "tuned threshold",
        "metric": f"trained on {label}",
        "ensemble": "ensemble",
    }


def verdict(ladder: Ladder, names: Mapping[str, str], label: str) -> Verdict:
    """What to do, from the ladder; ``names`` are those of the candidates in running text."""
    first, last = ladder.rungs[0], ladder.rungs[-1]
    reference, best, worth = first.choice, last.choice, ladder.worth
    simpler = ladder.simpler
    if simpler is not None and simpler.difference.mean >= 0:  # the large ones gain nothing
        best = simpler.candidate
    default, gain = names[reference], in_words(worth, label)
    stay = best == reference or worth.mean <= 0
    winner = reference if stay else best
    if len(ladder.rungs) == 1:
        head = f"Use {default}: it has the best mean of {len(names)} candidates of one kind."
        return Verdict("stay", winner, reference, head, "")
    if first.id == "default" and first.name.startswith("cut"):
        default += f" {first.name}"
    if stay:
        head = f"Stay with {default}: choosing among {len(names)} candidates is worth {gain}."
        return Verdict("stay", winner, reference, head, _steps(ladder))
    name, more = names[winner], [_steps(ladder)]
    if simpler is not None and simpler.candidate != winner:
        more.append(_price(simpler, names[simpler.candidate]))
    elif simpler is not None:
        large = f"{times_in_words(simpler.times)} times as large"
        more.append(f"Not worth its size: {names[last.choice]}, no better and {large}.")
    if ladder.clear:
        head = f"Use {name}: worth {gain} over {default}."
        return Verdict("clear", winner, reference, head, " ".join(more))
    if (worth.low or 0) > 0:
        gain += f" (taken alone; {significance(False)} with all steps allowed for)"
    head = f"No clear gain over {default}: the best guess is {name}, worth {gain}."
    return Verdict("unclear", winner, reference, head, " ".join(more))


def _steps(ladder: Ladder) -> str:
    """Which steps are clear, and which are not."""
    steps = [(r.clear, f"{r.name} ({r.step.mean:+.3f})") for r in ladder.rungs if r.step]
    parts = [
        f"{word}: {', '.join(names)}"
        for word, clear in ((f"{significance(True)} steps", True), (significance(False), False))
        if (names := [name for found, name in steps if found == clear])
    ]
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _price(simpler: Simpler, name: str) -> str:
    """
    >>> gap = Difference(-0.004, -0.01, 0.002, 0.2, 0.1)
    >>> _price(Simpler("linear", 312.0, gap, False), "logistic regression")
    'Simpler: logistic regression is 0.004 behind (not clear) and 310 times as small.'
    """
    d = simpler.difference
    clear = significance(simpler.clear)
    small = f"{times_in_words(simpler.times)} times as small"
    return f"Simpler: {name} is {-d.mean:.3f} behind ({clear}) and {small}."


def significance(clear: bool) -> str:
    """Whether a difference is significant, in the words of verdict and report."""
    return "clear" if clear else "not clear"


def times_in_words(times: float) -> str:
    """Two digits that matter.

    >>> times_in_words(312.4), times_in_words(45678), times_in_words(9.96)
    ('310', '46,000', '10')
    """
    digits = 10 ** max(0, math.floor(math.log10(times)) - 1)
    return f"{round(times / digits) * digits:,}"


def in_words(d: Difference, label: str) -> str:
    """A difference of a metric and its interval in a sentence.

    >>> in_words(Difference(0.1, None, None, 1.0, 0.5), "F1")
    '+0.100 of F1 (on one split: too few to tell)'
    """
    if d.low is None or d.high is None:
        return f"{d.mean:+.3f} of {label} (on one split: too few to tell)"
    return f"{d.mean:+.3f} {span(d.low, d.high, '+')} of {label}"


def span(low: float | None, high: float | None, sign: str = "") -> str:
    """An interval; nothing where a single split has none.

    >>> span(0.1, 0.25, "+"), span(None, None)
    ('[+0.100, +0.250]', '')
    """
    return "" if low is None or high is None else f"[{low:{sign}.3f}, {high:{sign}.3f}]"


def step_in_words(step: Difference | None, clear: bool) -> str:
    """What a step is worth, and whether that is clear.

    >>> step_in_words(Difference(0.1, 0.05, 0.15, 0.01, 0.99), True)
    '+0.100 [+0.050, +0.150]  clear'
    """
    if step is None:
        return ""
    words = f"{step.mean:+.3f} {span(step.low, step.high, '+')}".rstrip()
    return f"{words}  {significance(clear)}"


def steps_note(splits: int) -> str:
    """How the steps of the ladder were chosen, and which are clear."""
    if splits < 2:
        return "Each step: the best so far. One split is too few for intervals and p-values."
    return (
        "Each step: the best so far, chosen on the other splits and scored on this one. "
        f"{significance(True).capitalize()}: also when all steps are allowed for (Holm, 5 %)."
    )


def answer(outcome: Outcome) -> str:
    """Whether it pays to do more than what people do by default."""
    return {"clear": "yes", "unclear": significance(False), "stay": "no"}[outcome]
