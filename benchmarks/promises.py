"""How often promised constraints are broken on new rows, and what a promise costs.

    python benchmarks/promises.py simulated   # ss.promise and the plain threshold
    python benchmarks/promises.py real        # fitted models, calibration rows drawn again
    python benchmarks/promises.py folds       # out-of-fold scores, then a refit
    python benchmarks/promises.py grid        # a finer sequence of tests of precision
    python benchmarks/promises.py show        # the tables, from the results

MAPIE runs in an environment of its own: `simulated` and `real` with `--mapie ENV/bin/python`.

Resumable: finished blocks of draws are kept in --results. One thread.

**simulated**: normal scores of two classes, 2.5 standard deviations apart, whose true rates are
known in closed form. Scores are the true log-odds ("true"), another increasing function of them
("distorted", as of a model that is not calibrated), or probabilities of two decimals ("tied"). A
draw is a set of calibration rows; a promise is broken if the true rate at its threshold is on the
wrong side (of a count: if a draw of the next rows has more alerts).

**real**: logistic regression, fitted once on a third of the rows. The other rows are the
population, from which calibration rows are drawn with replacement.

**folds**: `MetricThresholdClassifier(LogisticRegression(), cv=5, confidence=...)` on half of the
rows, judged on the other half; "by noise" is how often the other half would say broken if the
promise were exact.

**grid**: thresholds that are tested for precision have 1.03 instead of 1.1 times the flagged rows
of the one before. The rule, fixed before the run, on problems and seeds that nothing was chosen on:
the finer one is taken if no problem is broken in more than 1 - confidence + 2 standard errors of
the draws, if the metric left (0 without an answer) gains more than two standard errors in the mean
over all problems and both confidences, and if no problem loses more than two.

"plain" is the best threshold for the calibration rows, without a promise. MAPIE's
`BinaryClassificationController` has its default grid of 100 thresholds, with its default correction
("MAPIE") and by fixed sequence ("MAPIE fixed").
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.special import expit, logit
from scipy.stats import betabinom, norm

RESULTS = Path(__file__).parent / "results" / "promises.jsonl"
APART, BLOCK, CONFIDENCES = 2.5, 20, (0.9, 0.95)


class Problem(NamedTuple):
    """Simulated rows, a goal, and how often calibration rows are drawn."""

    kind: str
    goal: str
    prevalence: float
    rows: int
    scores: str
    draws: int

    @property
    def name(self) -> str:
        return f"{self.goal}, {100 * self.prevalence:g} % of {self.rows:,}, {self.scores}"


PROBLEMS = [
    Problem("recall", "precision@recall>=0.8", 0.01, 20_000, "true", 200),
    Problem("recall", "precision@recall>=0.7", 0.002, 50_000, "true", 200),
    Problem("recall", "precision@recall>=0.8", 0.05, 2_000, "true", 200),
    Problem("recall", "precision@recall>=0.9", 0.3, 500, "tied", 200),
    Problem("precision", "recall@precision>=0.8", 0.01, 20_000, "true", 200),
    Problem("precision", "recall@precision>=0.6", 0.1, 2_000, "distorted", 200),
    Problem("precision", "recall@precision>=0.8", 0.3, 500, "tied", 200),
    Problem("fpr", "recall@fpr<=0.05", 0.3, 500, "true", 260),
    Problem("fpr", "recall@fpr<=0.01", 0.05, 2_000, "tied", 260),
    Problem("specificity", "recall@specificity>=0.95", 0.1, 1_000, "distorted", 500),
    Problem("alerts", "recall@alerts<=0.05", 0.05, 2_000, "true", 260),
    Problem("alerts", "recall@alerts<=0.02", 0.01, 5_000, "distorted", 260),
    Problem("count", "recall@alerts<=20/500", 0.05, 2_000, "true", 260),
    Problem("count", "recall@alerts<=50/10000", 0.002, 5_000, "true", 260),
    Problem("two", "f1@recall>=0.7&fpr<=0.1", 0.1, 2_000, "true", 260),
    Problem("two", "f1@recall>=0.7&precision>=0.5", 0.1, 2_000, "true", 260),
]
# The rows of the table, with what a trial implementation left of the metric: precision, or the
# fraction of draws without an answer.
TABLE = {0: 0.118, 1: 0.039, 2: 0.377, 4: 0.77}

GRID = [
    Problem("precision", "recall@precision>=0.8", 0.3, 500, "tied", 400),
    Problem("precision", "recall@precision>=0.9", 0.2, 1_000, "tied", 400),
    Problem("precision", "recall@precision>=0.95", 0.5, 500, "tied", 400),
    Problem("precision", "recall@precision>=0.5", 0.02, 5_000, "true", 400),
    Problem("precision", "recall@precision>=0.7", 0.4, 300, "distorted", 400),
    Problem("precision", "recall@precision>=0.8", 0.01, 20_000, "true", 200),
    Problem("precision", "f1@precision>=0.6", 0.05, 3_000, "distorted", 400),
    Problem("two", "f1@recall>=0.6&precision>=0.6", 0.1, 2_000, "tied", 400),
]
RATIOS = (1.1, 1.03)

# --- simulated rows: NumPy alone, so that MAPIE's environment can draw the same -------------------


def drawn(problem: Problem, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels of calibration rows."""
    number = PROBLEMS.index(problem) if problem in PROBLEMS else 100 + GRID.index(problem)
    random = np.random.default_rng([number, seed])
    y = (random.random(problem.rows) < problem.prevalence).astype(int)
    return scores_of(problem, random.normal(size=problem.rows) + APART * y), y


def scores_of(problem: Problem, x: np.ndarray) -> np.ndarray:
    z = APART * x - APART**2 / 2 + logit(problem.prevalence)
    if problem.scores == "distorted":
        z = np.cbrt(z) - 1
    p = expit(z)
    return np.round(p, 2) if problem.scores == "tied" else p


def true_rates(problem: Problem, threshold: float) -> dict[str, float]:
    """Rates of new rows whose score is at least ``threshold``, a probability."""
    if problem.scores == "tied":  # rounded to two decimals: those from half a step below on
        threshold = (np.ceil(np.round(threshold * 100, 9)) - 0.5) / 100
    z = logit(np.clip(threshold, 0, 1))
    z = (z + 1) ** 3 if problem.scores == "distorted" else z
    x = (z + APART**2 / 2 - logit(problem.prevalence)) / APART
    return rates(norm.sf(x - APART), norm.sf(x), problem.prevalence)


def rates(recall: float, fpr: float, prevalence: float) -> dict[str, float]:
    alerts = prevalence * recall + (1 - prevalence) * fpr
    precision = prevalence * recall / alerts if alerts > 0 else 0.0
    f1 = 2 * precision * recall / (precision + recall) if recall > 0 else 0.0
    return {"recall": recall, "fpr": fpr, "specificity": 1 - fpr, "precision": precision,
            "alerts": alerts, "f1": f1}  # fmt: skip


def constraints(goal: str) -> list[tuple[str, str, float, int | None]]:
    """Rate, sign, bound, and the next rows of a count."""
    found = re.findall(r"(\w+)([<>]=)([\d.]+)(?:/(\d+))?", goal.partition("@")[2])
    return [(rate, sign, float(bound), int(n) if n else None) for rate, sign, bound, n in found]


def broken(goal: str, true: dict[str, float], random: np.random.Generator) -> bool:
    missed = []
    for name, sign, bound, rows in constraints(goal):
        rate = true[name]
        if rows:
            missed.append(random.binomial(rows, rate) > bound)
        else:
            missed.append(rate < bound - 1e-12 if sign == ">=" else rate > bound + 1e-12)
    return any(missed)


# --- methods: a threshold as a probability, or None -----------------------------------------------


def softset_threshold(p: np.ndarray, y: np.ndarray, goal: str, confidence: float) -> float | None:
    import softset as ss  # noqa: PLC0415

    return ss.promise(p, y, goal, confidence=confidence, from_logits=False).threshold


def plain_threshold(p: np.ndarray, y: np.ndarray, goal: str, confidence: float) -> float | None:
    import softset as ss  # noqa: PLC0415

    return ss.best_threshold(p, y, goal, from_logits=False)


def mapie_threshold(
    p: np.ndarray, y: np.ndarray, goal: str, confidence: float, method: str = "bonferroni_holm"
) -> float | None:
    from mapie.risk_control import BinaryClassificationController  # noqa: PLC0415

    names = {"alerts": "predicted_positive_fraction", "specificity": "fpr"}
    bounds = constraints(goal)
    if any(rows for *_, rows in bounds):
        return None  # it predicts no counts
    risks = [names.get(name, name) for name, *_ in bounds]
    levels = [1 - b if name == "specificity" else b for name, _, b, _ in bounds]
    best = {"f1": "accuracy"}.get(goal.partition("@")[0], goal.partition("@")[0])
    one = len(risks) == 1
    controller = BinaryClassificationController(
        lambda x: np.column_stack([1 - x[:, 0], x[:, 0]]),
        risks[0] if one else risks,
        levels[0] if one else levels,
        confidence_level=confidence,
        best_predict_param_choice=best,
        fwer_method=method,
    )
    controller.calibrate(p[:, None], y)
    found = controller.best_predict_param
    return None if found is None else float(found)


def mapie_fixed(p: np.ndarray, y: np.ndarray, goal: str, confidence: float) -> float | None:
    return mapie_threshold(p, y, goal, confidence, "fixed_sequence")


OURS = {"softset": softset_threshold, "plain": plain_threshold}
MAPIE = {"MAPIE": mapie_threshold, "MAPIE fixed": mapie_fixed}

# --- runs -----------------------------------------------------------------------------------------


def block_of(problem: Problem, method: str, confidence: float, block: int) -> dict:
    """What a method did in some draws."""
    answers, missed, left = 0, 0, []
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        p, y = drawn(problem, seed)
        threshold = {**OURS, **MAPIE}[method](p, y, problem.goal, confidence)
        if threshold is None:
            continue
        true = true_rates(problem, threshold)
        answers += 1
        missed += broken(problem.goal, true, np.random.default_rng([1, seed]))
        left.append(true[problem.goal.partition("@")[0]])
    return {"part": "simulated", "problem": PROBLEMS.index(problem), "method": method,
            "confidence": confidence, "block": block, "draws": BLOCK, "answers": answers,
            "broken": int(missed), "left": float(np.sum(left))}  # fmt: skip


def simulated(results: Path, methods: dict) -> None:
    done = {key(r) for r in read(results) if r["part"] == "simulated"}
    quick_first = sorted(PROBLEMS, key=lambda p: p.rows)
    for method, confidence, problem in itertools.product(methods, CONFIDENCES, quick_first):
        if "MAPIE" in method and problem.kind == "count":
            continue  # it predicts no counts
        if method == "MAPIE fixed" and problem.kind == "two":
            continue  # its fixed sequence takes one constraint
        if method == "plain" and confidence != CONFIDENCES[0]:
            continue  # it has no confidence
        for block in range(problem.draws // BLOCK):
            if (PROBLEMS.index(problem), method, confidence, block) not in done:
                append(results, block_of(problem, method, confidence, block))


def key(record: dict) -> tuple:
    return tuple(record[name] for name in ("problem", "method", "confidence", "block"))


def grid(results: Path) -> None:
    from softset.decisions import bounds  # noqa: PLC0415

    done = {
        (r["problem"], r["confidence"], r["block"]) for r in read(results) if r["part"] == "grid"
    }
    for (number, problem), confidence in itertools.product(enumerate(GRID), CONFIDENCES):
        for block in range(problem.draws // BLOCK):
            if (number, confidence, block) in done:
                continue
            left = np.zeros((BLOCK, len(RATIOS)))
            missed, answers = np.zeros(len(RATIOS), int), np.zeros(len(RATIOS), int)
            for k, seed in enumerate(range(block * BLOCK, (block + 1) * BLOCK)):
                p, y = drawn(problem, seed)
                for i, bounds._RATIO in enumerate(RATIOS):
                    threshold = softset_threshold(p, y, problem.goal, confidence)
                    if threshold is not None:
                        true = true_rates(problem, threshold)
                        answers[i] += 1
                        missed[i] += broken(problem.goal, true, np.random.default_rng([1, seed]))
                        left[k, i] = true[problem.goal.partition("@")[0]]
            gain = left[:, 1] - left[:, 0]
            append(results, {
                "part": "grid", "problem": number, "confidence": confidence, "block": block,
                "draws": BLOCK, "answers": answers.tolist(), "broken": missed.tolist(),
                "left": left.sum(0).tolist(), "gain": gain.sum(), "squares": (gain**2).sum(),
            })  # fmt: skip


REAL = ("adult", "mammography", "creditcard", "letter_img")
REAL_GOALS = ("precision@recall>=0.8", "recall@precision>=0.7", "recall@fpr<=0.05")
REAL_ROWS, REAL_DRAWS, FOLD_ROWS, FOLD_SPLITS = 2_000, 500, 4_000, 60


def population(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels of the rows that the model was not fitted on; kept in a file."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    from common import DATA, load  # noqa: PLC0415

    x, y, _ = load(DATA, name)
    a, b, c, d = train_test_split(x, y, train_size=1 / 3, stratify=y, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(a, c)
    return model.predict_proba(b)[:, 1], d


def real_block(
    name: str, goal: str, p: np.ndarray, y: np.ndarray, method: str, confidence: float, block: int
) -> dict:
    answers, missed, left = 0, 0, []
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        random = np.random.default_rng([2, seed])
        rows = random.integers(0, len(y), REAL_ROWS)
        threshold = {**OURS, **MAPIE}[method](p[rows], y[rows], goal, confidence)
        if threshold is None:
            continue
        said = p >= threshold
        true = rates(said[y == 1].mean(), said[y == 0].mean(), y.mean())
        answers += 1
        missed += broken(goal, true, random)
        left.append(true[goal.partition("@")[0]])
    return {"part": "real", "problem": f"{name}: {goal}", "method": method, "block": block,
            "confidence": confidence, "draws": BLOCK, "answers": answers, "broken": int(missed),
            "left": float(np.sum(left))}  # fmt: skip


def real(results: Path, methods: dict, scores: Path | None = None) -> None:
    done = {key(r) for r in read(results) if r["part"] == "real"}
    for name in REAL:
        if scores is None:
            p, y = population(name)
        else:
            saved = np.load(scores)
            p, y = saved[f"{name}_p"], saved[f"{name}_y"]
        for goal in REAL_GOALS:
            for method in methods:
                for block in range(REAL_DRAWS // BLOCK):
                    if (f"{name}: {goal}", method, 0.9, block) not in done:
                        append(results, real_block(name, goal, p, y, method, 0.9, block))


def folds(results: Path) -> None:
    """Out-of-fold scores of half of the rows, a refit, and the other half."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    import softset as ss  # noqa: PLC0415
    from common import DATA, load  # noqa: PLC0415

    done = {(r["problem"], r["split"]) for r in read(results) if r["part"] == "folds"}
    goal, confidence = "precision@recall>=0.8", 0.9
    for name in REAL:
        x, y, _ = load(DATA, name)
        for split in range(FOLD_SPLITS):
            if (name, split) in done:
                continue
            rows = np.random.default_rng([3, split]).permutation(len(y))[:FOLD_ROWS]
            a, b, c, d = train_test_split(
                x[rows], y[rows], test_size=0.5, stratify=y[rows], random_state=split
            )
            inner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
            model = ss.MetricThresholdClassifier(
                inner, goal, confidence=confidence, random_state=split
            ).fit(a, c)
            kept = model.promise_
            record = {"part": "folds", "problem": name, "split": split, "answer": False}
            if kept.threshold is not None:
                oof, m, n = model.oof_scores_, int(c.sum()), int(d.sum())
                e = int((oof[c == 1] < kept.logit).sum())
                recall = (model.predict(b) == 1)[d == 1].mean()
                noise = betabinom.cdf(np.ceil(0.8 * n) - 1, n, m - e, e + 1)
                record |= {"answer": True, "broken": bool(recall < 0.8), "noise": float(noise)}
            append(results, record)


def other_python(python: str, part: str, results: Path) -> None:
    """The same command in MAPIE's environment, with the scores of real data in a file."""
    arguments = [python, __file__, part, "--results", str(results), "--only-mapie"]
    if part == "real":
        path = results.with_suffix(".npz")
        found = {name: population(name) for name in REAL}
        np.savez(path, **{f"{n}_p": p for n, (p, _) in found.items()},
                 **{f"{n}_y": y for n, (_, y) in found.items()})  # fmt: skip
        arguments += ["--scores", str(path)]
    subprocess.run(arguments, check=True)
    results.with_suffix(".npz").unlink(missing_ok=True)


# --- results --------------------------------------------------------------------------------------


def read(path: Path) -> list[dict]:
    """The whole lines of a results file; also in MAPIE's environment, which lacks ``common``."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def append(path: Path, record: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def added(records: list[dict]) -> dict[str, float]:
    if not records:
        return {}
    total = {name: sum(r[name] for r in records) for name in ("draws", "answers", "broken", "left")}
    n, k, b = total["draws"], total["answers"], total["broken"]
    left = total["left"] / k if k else float("nan")
    return {"draws": n, "none": 1 - k / n, "broken": b / n, "of_answers": b / k if k else 0.0,
            "left": left, "error": np.sqrt(b / n * (1 - b / n) / n)}  # fmt: skip


def show(results: Path) -> None:
    records = read(results)
    methods = ("plain", "MAPIE", "MAPIE fixed", "softset")
    simulations = [r for r in records if r["part"] == "simulated"]
    table("constraint, confidence | method | draws | broken | of answers | no answer")
    for kind in dict.fromkeys(p.kind for p in PROBLEMS):
        own = [r for r in simulations if PROBLEMS[r["problem"]].kind == kind]
        for confidence in CONFIDENCES:
            for method in methods:
                t = added(
                    [r for r in own if (r["method"], r["confidence"]) == (method, confidence)]
                )
                if t:
                    print(
                        f"| {kind}, {confidence} | {method} | {t['draws']:.0f} | {t['broken']:.3f} "
                        f"| {t['of_answers']:.3f} | {t['none']:.3f} |"
                    )
    table("confidence 0.9: metric left (no answer) | MAPIE | MAPIE fixed | softset | trial | best")
    for number, problem in enumerate(PROBLEMS):
        own = [r for r in simulations if r["problem"] == number and r["confidence"] == 0.9]
        each = [added([r for r in own if r["method"] == m]) for m in methods[1:]]
        cells = ["" if not t else f"{t['left']:.3f} ({t['none']:.2f})" for t in each]
        trial, best = TABLE.get(number, ""), best_possible(problem)
        print(f"| {problem.name} | {' | '.join(cells)} | {trial} | {best:.3f} |")
    table("real data, confidence 0.9 | method | broken | no answer | left")
    drawn_again = [r for r in records if r["part"] == "real"]
    for name in dict.fromkeys(r["problem"] for r in drawn_again):
        for m in methods:
            t = added([r for r in drawn_again if r["problem"] == name and r["method"] == m])
            if t:
                rest = f"{t['broken']:.3f} | {t['none']:.3f} | {t['left']:.3f}"
                print(f"| {name} | {m} | {rest} |")
    table("folds and a refit, recall >= 0.8 at 0.9 | splits | broken on the other half | by noise")
    for name in REAL:
        own = [r for r in records if r["part"] == "folds" and r["problem"] == name and r["answer"]]
        if own:
            fraction, noise = (np.mean([r[k] for r in own]) for k in ("broken", "noise"))
            print(f"| {name} | {len(own)} | {fraction:.3f} | {noise:.3f} |")
    show_goals([r for r in records if r["part"] in ("simulated", "real")])
    show_grid([r for r in records if r["part"] == "grid"])


def show_goals(records: list[dict]) -> None:
    """What was aimed at, met or missed."""
    every: dict[tuple, list[dict]] = {}
    for r in records:
        every.setdefault((r["problem"], r["confidence"], r["method"]), []).append(r)
    totals = {k: added(v) for k, v in every.items()}
    table("goal | result")
    pairs = [
        (t["none"], totals[other]["none"])
        for (name, confidence, method), t in totals.items()
        if method == "softset" and (other := (name, confidence, "MAPIE fixed")) in totals
    ]
    above = sum(ours > theirs for ours, theirs in pairs)
    print(
        "| no answer never more often than MAPIE's fixed sequence | "
        f"{above} of {len(pairs)} above: {said(not above)} |"
    )
    kinds: dict[tuple, list[dict]] = {}
    for (name, confidence, method), own in every.items():
        if method == "softset" and isinstance(name, int):
            kinds.setdefault((PROBLEMS[name].kind, confidence), []).extend(own)
    limits = {k: 1 - k[1] + 2 * np.sqrt(k[1] * (1 - k[1]) / added(v)["draws"])
              for k, v in kinds.items()}  # fmt: skip
    above = sum(added(v)["broken"] > limits[k] for k, v in kinds.items())
    print(f"| broken in at most 1 - confidence + 2 standard errors | {above} of {len(kinds)} kinds "
          f"above: {said(not above)} |")  # fmt: skip
    for number, trial in TABLE.items():
        by = {m: totals.get((number, 0.9, m), {}) for m in ("MAPIE", "MAPIE fixed", "softset")}
        if not all(by.values()):
            continue
        blocks = every[number, 0.9, "softset"]
        key, sign = ("none", -1) if number == 4 else ("left", 1)
        each = [added([r])[key] for r in blocks]
        value, error = by["softset"][key], np.std(each, ddof=1) / np.sqrt(len(each))
        best = max(sign * by[m][key] for m in ("MAPIE", "MAPIE fixed"))
        word = "no answer" if number == 4 else "left"
        ahead = f"{word} {value:.3f}, MAPIE {abs(best):.3f}: {said(sign * value > best)}"
        near = f"trial {trial}, {(value - trial) / error:+.1f} standard errors"
        print(f"| {PROBLEMS[number].name}: ahead of MAPIE | {ahead} |")
        beyond = abs(value - trial) > 2 * error
        better = " (better)" if beyond and sign * (value - trial) > 0 else ""
        print(f"| the same: the trial's figure within two | {near}: {said(not beyond)}{better} |")


def said(met: bool) -> str:
    return "met" if met else "missed"


def show_grid(records: list[dict]) -> None:
    """Each problem of ``grid``, and what its rule says."""
    table("problem, confidence | draws | broken 1.1, 1.03 | no answer | left (0 without) | gain")
    gains, errors, held = [], [], []
    for (number, problem), confidence in itertools.product(enumerate(GRID), CONFIDENCES):
        own = [r for r in records if (r["problem"], r["confidence"]) == (number, confidence)]
        if not own:
            continue
        n = sum(r["draws"] for r in own)
        missed, answers, left = (
            np.sum([r[key] for r in own], 0) / n for key in ("broken", "answers", "left")
        )
        gain, squares = (sum(r[key] for r in own) / n for key in ("gain", "squares"))
        gains.append(gain)
        errors.append(np.sqrt(max(squares - gain**2, 0) / n))
        held.append(missed[1] <= 1 - confidence + 2 * np.sqrt(confidence * (1 - confidence) / n))
        pairs = (f"{a:.3f}, {b:.3f}" for a, b in (missed, 1 - answers, left))
        error = f"{gain:+.4f} ± {errors[-1]:.4f}"
        print(f"| {problem.name}, {confidence} | {n} | {' | '.join(pairs)} | {error} |")
    if gains:
        mean, error = np.mean(gains), np.sqrt(np.sum(np.square(errors))) / len(gains)
        worse = any(g < -2 * e for g, e in zip(gains, errors, strict=True))
        taken = all(held) and mean > 2 * error and not worse
        print(f"\nmean gain {mean:+.4f} ± {error:.4f}: {'taken' if taken else 'not taken'}")


def table(head: str) -> None:
    print(f"\n| {head} |\n{'|---' * (head.count('|') + 1)}|")


def best_possible(problem: Problem) -> float:
    """The metric at the best threshold that keeps the constraints, by the true rates."""
    best = float("nan")
    random = np.random.default_rng(0)
    goal = re.sub(r"(\d+)/(\d+)", lambda m: str(int(m[1]) / int(m[2])), problem.goal)
    for p in (
        expit(np.linspace(-12, 12, 4001)) if problem.scores != "tied" else np.arange(101) / 100
    ):
        true = true_rates(problem, p)
        if not broken(goal, true, random):
            best = np.fmax(best, true[problem.goal.partition("@")[0]])
    return float(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("simulated", "real", "folds", "grid", "show"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--mapie", metavar="PYTHON", help="an interpreter that has MAPIE")
    parser.add_argument("--only-mapie", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--scores", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.part == "show":
        show(given.results)
    elif given.part == "folds":
        folds(given.results)
    elif given.part == "grid":
        grid(given.results)
    elif given.mapie:
        other_python(given.mapie, given.part, given.results)
    elif given.part == "simulated":
        simulated(given.results, MAPIE if given.only_mapie else OURS)
    else:
        real(given.results, MAPIE if given.only_mapie else OURS, given.scores)


if __name__ == "__main__":
    sys.exit(main())
