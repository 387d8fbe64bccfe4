"""The gains in plain words: what to use, its gain, and the cost of a simpler model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from softset.comparison.result import (
    Difference,
    Gains,
    Outcome,
    Simpler,
    StageId,
    measured,
    signed,
    significance,
)
from softset.tasks import Task


@dataclass(frozen=True)
class Verdict:
    """``outcome`` is ``"significant"`` (use the winner), ``"not significant"`` (the winner is only
    the best guess) or ``"stay"`` (with the reference, which is then the winner). The reference of a
    winner that is trained for the metric is the best candidate with a tuned threshold."""

    outcome: Outcome
    winner: str
    reference: str


def stage_names(
    label: str, task: Task, by_scores: bool, by_row: bool = False
) -> dict[StageId, str]:
    """The names of the stages; ``label`` is the metric in running text, ``by_row`` as of
    ``choose``."""
    default = "largest probability" if task.exclusive else "default threshold (0.5)"
    tuned = "tuned offsets" if task.exclusive else "tuned threshold"
    return {
        "user": "your model as it is",
        "default": "log loss" if by_scores else default,
        "tuned": "costs of each row" if by_row else tuned,
        "metric": f"trained for {label}",
        "ensemble": "ensemble",
    }


def verdict(gains: Gains, stages: Mapping[str, StageId]) -> Verdict:
    """Which candidate to use, by the gains of choosing; ``stages`` are those of the candidates."""
    reference, winner = gains.stages[0].choice, gains.stages[-1].choice
    simpler = gains.simpler
    if simpler is not None and simpler.difference.mean >= 0:  # the large ones gain nothing
        winner = simpler.candidate
    if winner == reference or gains.total.mean <= 0 or len(gains.stages) == 1:
        return Verdict("stay", reference, reference)
    if stages[winner] in ("metric", "ensemble"):
        reference = next((s.choice for s in gains.stages if s.id == "tuned"), reference)
    return Verdict(
        "significant" if gains.total.significant else "not significant", winner, reference
    )


def headline(
    decision: Verdict,
    gains: Gains,
    names: Mapping[str, str],
    label: str,
    means: Mapping[str, float],
    difference: Difference | None,
) -> str:
    """The verdict in a sentence with the winner's own numbers, those of the table: ``means`` of the
    candidates, and the winner's ``difference`` to the reference, which is a tuned threshold where
    the winner is trained for the metric."""
    first, winner = gains.stages[0], names[decision.winner]
    reference, over_tuned = names[decision.reference], decision.reference != first.choice
    if len(gains.stages) == 1:
        return f"Use {reference}: it has the best mean of {len(names)} candidates of one kind."
    if not over_tuned and first.id == "default" and first.name.startswith("default threshold"):
        reference += f", {first.name}"
    value = measured(label, means[decision.winner])
    if over_tuned and difference is None:
        return f"Use {winner}: {value}."
    if decision.outcome == "stay" or difference is None:
        return (
            f"Stay with {reference}: {measured(label, means[decision.reference])}; "
            f"choosing among {len(names)} candidates gains {gain_in_words(gains.total, label)}."
        )
    gain = f"{value}, {gain_in_words(difference, '')} over {reference}"
    if difference.significant if over_tuned else decision.outcome == "significant":
        return f"Use {winner}: {gain}."
    if over_tuned and decision.outcome == "significant":
        tuned = next(s for s in gains.stages if s.id == "tuned")
        by_tuning = "" if tuned.gain is None else f"; {tuned.name}: {signed(tuned.gain)}"
        return f"Use {winner}: {gain} (not significant{by_tuning})."
    return f"No significant gain over {reference}: the best guess is {winner}, {gain}."


def advice(decision: Verdict, gains: Gains, names: Mapping[str, str], label: str) -> str:
    """The sentences after the headline: the gain of choosing, of each stage, of simplicity."""
    if len(gains.stages) == 1:
        return ""
    sentences = []
    if decision.outcome != "stay":
        sentences.append(
            f"Choosing among all {len(names)} on other splits, which is not optimistically biased, "
            f"gains {gain_in_words(gains.total, label)} over {gains.stages[0].name}: "
            f"{significance(gains.total)}"
            f"{_only_before_holm(gains.total)}."
        )
    sentences.append(_by_stage(gains))
    simpler = gains.simpler
    if decision.outcome != "stay" and simpler is not None:
        if simpler.candidate != decision.winner:
            sentences.append(_cost(simpler, names[simpler.candidate]))
        else:
            large = f"{times_in_words(simpler.times)} times as large"
            best = names[gains.stages[-1].choice]
            sentences.append(f"No gain for its size: {best}, no better and {large}.")
    return " ".join(sentences)


def _only_before_holm(total: Difference) -> str:
    if total.significant or (total.low or 0) <= 0:
        return ""
    return ", significant only before the Holm correction"


def _by_stage(gains: Gains) -> str:
    """Which stages have a significant gain, and which have not."""
    later = [(stage.name, stage.gain) for stage in gains.stages if stage.gain is not None]
    texts = [
        f"{words}: {', '.join(members)}"
        for words, significant in (("significant stages", True), ("not significant", False))
        if (members := [f"{n} ({g.mean:+.3f})" for n, g in later if g.significant == significant])
    ]
    text = "; ".join(texts)
    return f"{text[0].upper()}{text[1:]}."


def _cost(simpler: Simpler, name: str) -> str:
    """
    >>> gap = Difference(-0.004, -0.01, 0.002, 0.2, 0.1, p_adjusted=0.4)
    >>> _cost(Simpler("linear", 312.0, gap), "logistic regression")
    'Simpler: logistic regression is 0.004 behind (not significant) and 310 times as small.'
    """
    d = simpler.difference
    small = f"{times_in_words(simpler.times)} times as small"
    return f"Simpler: {name} is {-d.mean:.3f} behind ({significance(d, brief=True)}) and {small}."


def times_in_words(times: float) -> str:
    """A ratio, in two significant digits.

    >>> times_in_words(312.4), times_in_words(45678), times_in_words(9.96)
    ('310', '46,000', '10')
    """
    digits = 10 ** max(0, math.floor(math.log10(times)) - 1)
    return f"{round(times / digits) * digits:,}"


def gain_in_words(d: Difference, label: str) -> str:
    """A difference of a metric and its interval in a sentence.

    >>> gain_in_words(Difference(0.1, None, None, 1.0, 0.5), "F1")
    '+0.100 of F1 (on one split: too few to tell)'
    """
    gain = f"{signed(d)} of {label}" if label else signed(d)
    return f"{gain} (on one split: too few to tell)" if d.low is None else gain


def answer(outcome: Outcome) -> str:
    """Whether anything beats the default."""
    return {"significant": "yes", "not significant": "not significantly", "stay": "no"}[outcome]
