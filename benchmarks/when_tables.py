"""The tables and the picture of the study ``when.py``, from its records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from common import TEST, OverSets, over_sets
from softset.comparison.statistics import Difference, holm, mean_ranks, paired
from softset.metrics.registry import label_of
from when_data import DATA_AXES, DIGITS, FAMILIES
from when_models import CAPACITIES, CHOSEN, ENTROPY, HALF, METRIC, RIVALS, THREE

# With fewer positives for each feature a linear model overfits: sets are parted here.
FEW = 3
# The models shown for the made-up families.
SOME = ("linear", "network 2", "network 8", "network 64", "tree, 8 leaves",
        "boosting, 4 leaves, 20 rounds", "boosting, 15 leaves, 100 rounds")  # fmt: skip


def is_real(record: dict) -> bool:
    return record["set"] not in FAMILIES and record["set"] not in DIGITS


def by_set(records: Iterable[dict]) -> dict[str, list[dict]]:
    """The records of each set, by split."""
    found: dict[str, list[dict]] = {}
    for r in sorted(records, key=lambda r: (r["set"], r["split"])):
        found.setdefault(r["set"], []).append(r)
    return found


def mean(records: Sequence[dict], arm: str) -> float:
    return float(np.mean([r["scores"][arm] for r in records]))


def gains(records: Iterable[dict], arm: str, against: str) -> dict[str, float]:
    """For each set, the mean gain over its splits."""
    return {n: mean(own, arm) - mean(own, against) for n, own in by_set(records).items()}


def difference(own: Sequence[dict], arm: str, against: str) -> Difference:
    """The corrected test of one set."""
    pair = ([r["scores"][a] for r in own] for a in (arm, against))
    return paired(*pair, TEST, float(np.mean([r["one_row"] for r in own])))


class Clear(NamedTuple):
    """Sets with a clear difference (corrected t-test, Holm over sets)."""

    better: list[str]
    worse: list[str]


def clear(records: Iterable[dict], arm: str, against: str) -> Clear:
    tests = {n: difference(own, arm, against) for n, own in by_set(records).items()}
    adjusted = dict(zip(tests, holm([t.p for t in tests.values()]), strict=True))
    sure = [n for n in tests if adjusted[n] < 0.05]
    return Clear([n for n in sure if tests[n].mean > 0], [n for n in sure if tests[n].mean < 0])


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def signed(found: OverSets | Difference) -> str:
    """The mean with its interval; one split or set has none."""
    if found.low is None or np.isnan(found.low):
        return f"{found.mean:+.4f}"
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def counts(found: OverSets) -> str:
    return f"{found.better} / {found.worse} / {found.equal}"


def at(records: Iterable[dict], **wanted: object) -> list[dict]:
    return [r for r in records if all(r[k] == v for k, v in wanted.items())]


def summary(records: Sequence[dict], arm: str = METRIC, against: str = ENTROPY) -> OverSets:
    return over_sets(gains(records, arm, against).values())


# --- tables ---------------------------------------------------------------------------------------


def tables(records: list[dict], planned: Sequence[tuple]) -> str:
    """All tables, in the order of the page."""
    parts = [
        ("What was run", coverage(records, planned)),
        ("Capacity, F1, all real datasets", capacity(records)),
        ("Boosting: all rounds of log-loss, then as many again for F1", further(records)),
        ("Capacity, by positives for each feature", parted(records)),
        ("Set by set, F1", sets(records)),
        ("Made-up families: how far from the optimum, F1", families(records)),
        ("Metrics", metrics(records)),
        ("Data, F1", data(records)),
        ("Baselines, F1", rivals(records)),
    ]
    return "\n\n".join(f"### {title}\n\n{text}" for title, text in parts if text)


def coverage(records: list[dict], planned: Sequence[tuple]) -> str:
    rows = []
    for axis in dict.fromkeys(cell[0] for cell in planned):
        own, all_of = at(records, axis=axis), [c for c in planned if c[0] == axis]
        splits = sorted({c[-1] for c in all_of})
        by_split = [
            f"{sum(r['split'] == s for r in own)} of {sum(c[-1] == s for c in all_of)}"
            for s in splits
        ]
        minutes = sum(r["seconds"] for r in own) / 60
        rows.append([axis, *by_split, f"{minutes:.1f}"])
    head = ["axis", *(f"cells of split {s}" for s in splits), "core-minutes"]
    hours = sum(r["seconds"] for r in records) / 3600
    return table(head, rows) + f"\n\n{len(records)} cells, {hours:.2f} core-hours in all."


def capacity(records: list[dict]) -> str:
    return _models([r for r in at(records, axis="capacity") if is_real(r)])


def further(records: list[dict]) -> str:
    return _models(at(records, axis="further"))


def _models(records: list[dict]) -> str:
    """A row for each model."""
    rows = []
    for name in CAPACITIES:
        own = at(records, level=name)
        if not own:
            continue
        sets_of = by_set(own)
        found, chosen, sure = summary(own), summary(own, CHOSEN), clear(own, METRIC, ENTROPY)
        means = [np.mean([mean(s, arm) for s in sets_of.values()]) for arm in (HALF, ENTROPY)]
        rows.append(
            [
                name,
                f"{len(sets_of)} x {len({r['split'] for r in own})}",
                *(f"{m:.3f}" for m in means),
                signed(found),
                counts(found),
                f"{found.p:.3f}",
                f"{len(sure.better)} / {len(sure.worse)}",
                signed(chosen),
                counts(chosen),
                f"{chosen.p:.3f}",
                f"{np.mean([r['seconds'] for r in own]):.2f}",
            ]
        )
    head = ["model", "sets x splits", "cross-entropy at 1/2", "tuned"]
    head += ["gain of the metric, 95 % interval", "better / worse / equal", "p"]
    head += ["clearly better / worse", "gain if chosen out of fold", "better / worse / equal"]
    return table([*head, "p", "seconds a cell"], rows) if rows else ""


def parted(records: list[dict]) -> str:
    rows = []
    for name in CAPACITIES:
        own = [r for r in at(records, axis="capacity", level=name) if is_real(r)]
        # The features of the set, not the few that a model was given.
        features = {r["set"]: r["features"] for r in at(records, axis="capacity", level="linear")}
        few = [r for r in own if r["positives"] < FEW * features.get(r["set"], r["features"])]
        many = [r for r in own if r not in few]
        if not few or not many:
            continue
        line = [name]
        for part in (few, many):
            found = summary(part)
            line += [str(len(by_set(part))), signed(found), counts(found), f"{found.p:.3f}"]
        rows.append(line)
    head = ["model"]
    for words in (f"under {FEW}", f"{FEW} or more"):
        head += [f"sets with {words}", "gain", "better / worse / equal", "p"]
    return table(head, rows) if rows else ""


def sets(records: list[dict]) -> str:
    own = [r for r in at(records, axis="capacity") if is_real(r) and r["level"] in THREE]
    rows = []
    for name in by_set(own):
        line = [name]
        for k, level in enumerate(THREE):
            found = at(own, set=name, level=level)
            if not found:
                line += ["", ""]
                continue
            if k == 0:
                line += [f"{found[0]['positives'] / found[0]['features']:.1f}"]
            test = difference(found, METRIC, ENTROPY)
            line += [f"{mean(found, ENTROPY):.3f}", f"{test.mean:+.3f} (p {test.p:.2f})"]
        rows.append(line)
    head = ["set", "positives / feature"]
    for level in THREE:
        head += [f"{level}: tuned", "gain"]
    return table(head, rows) if rows else ""


def families(records: list[dict]) -> str:
    rows = []
    for name in FAMILIES:
        for level in SOME:
            own = at(records, axis="capacity", set=name, level=level)
            if not own:
                continue
            best = float(np.mean([r["optimum"] for r in own]))
            gaps = [f"{mean(own, arm) - best:+.3f}" for arm in (HALF, ENTROPY, METRIC)]
            each = [r["scores"][METRIC] - r["scores"][ENTROPY] for r in own]
            gain = f"{np.mean(each):+.3f} ({min(each):+.3f} to {max(each):+.3f})"
            rows.append([name, f"{best:.3f}", level, len(own), *gaps, gain])
    head = ["family", "optimum", "model", "draws", "gap at 1/2", "gap, tuned", "gap, metric"]
    return table([*head, "gain (least to most)"], rows) if rows else ""


def metrics(records: list[dict]) -> str:
    """Of each metric; F1 is the base point."""
    base = [r for r in at(records, axis="capacity") if is_real(r) and r["level"] in THREE]
    several = at(records, axis="metric")
    rows = []
    for metric in dict.fromkeys(["f1", *(r["metric"] for r in several)]):
        for level in THREE:
            own = at([*base, *several], metric=metric, capacity=level)
            if metric != "f1_macro":
                rows += [[label_of(metric), level, *_line(own)]] if own else []
                continue
            for name, found in by_set(own).items():
                test, first = difference(found, METRIC, ENTROPY), f"{mean(found, ENTROPY):.3f}"
                line = [f"macro F1, {name}", level, 1, first, signed(test), "", f"{test.p:.3f}"]
                rows.append(line)
    head = ["metric", "model", "sets", "tuned", "gain, 95 % interval", "better / worse / equal"]
    return table([*head, "p"], rows)


def _line(own: Sequence[dict]) -> list[object]:
    found, sets_of = summary(own), by_set(own)
    first = np.mean([mean(s, ENTROPY) for s in sets_of.values()])
    return [len(sets_of), f"{first:.3f}", signed(found), counts(found), f"{found.p:.3f}"]


def data(records: list[dict]) -> str:
    """Each level beside the base point of the same sets and splits."""
    rows = []
    for axis, levels in DATA_AXES.items():
        for capacity_of in THREE:
            for level in levels:
                own = at(records, axis=axis, level=level, capacity=capacity_of)
                if not own:
                    continue
                same = {(r["set"], r["split"]) for r in own}
                base = [
                    r
                    for r in at(records, axis="capacity", level=capacity_of)
                    if (r["set"], r["split"]) in same
                ]
                before = signed(summary(base)) if base else ""
                rows.append([level, capacity_of, *_line(own), before])
    head = ["level", "model", "sets", "tuned", "gain, 95 % interval", "better / worse / equal"]
    return table([*head, "p", "gain at the base point"], rows) if rows else ""


def rivals(records: list[dict]) -> str:
    """What each arm gets, its rank, and how far the metric is ahead of it."""
    rows = []
    for level in THREE:
        own = at(records, axis="rivals", capacity=level)
        if not own:
            continue
        arms = [a for a in (HALF, ENTROPY, *RIVALS, METRIC) if a in own[0]["scores"]]
        sets_of = by_set(own)
        means = {a: [mean(s, a) for s in sets_of.values()] for a in arms}
        ranks = mean_ranks(means)
        for arm in arms:
            line = [level, arm, f"{np.mean(means[arm]):.3f}", f"{ranks[arm]:.2f}"]
            if arm != METRIC:
                found = summary(own, METRIC, arm)
                line += [signed(found), counts(found), f"{found.p:.3f}"]
            rows.append([*line, *[""] * (7 - len(line))])
    head = ["model", "trained with", "mean", "mean rank", "metric minus this, 95 % interval"]
    return table([*head, "better / worse / equal", "p"], rows) if rows else ""


# --- the picture ----------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 960, 440, 64, 100, 66
ABOVE, BELOW, NEITHER, INK = "#1b7837", "#b2182b", "#767676", "#222222"


def groups() -> dict[str, dict[str, str]]:
    """Group -> capacity -> short label."""
    found: dict[str, dict[str, str]] = {}
    for name, size in CAPACITIES.items():
        if size.kind == "linear":
            group, label = "linear", "all" if size.features is None else str(size.features)
        elif size.kind == "network":
            group, label = "network", "-".join(map(str, size.hidden))
        elif size.rounds == 1:
            group, label = "one tree", str(size.leaves)
        else:
            group, label = f"{size.leaves}-leaf boosting", str(size.rounds)
        found.setdefault(group, {})[name] = label
    return found


UNITS = {"linear": "features", "network": "hidden units", "one tree": "leaves"}


def picture(records: list[dict]) -> str:
    """Gain over a tuned threshold against capacity, as SVG.

    Boosting has a second, hollow mark: further rounds for the metric after all of log-loss.
    """
    base = [r for r in at(records, axis="capacity") if is_real(r)]
    found, hollow = _found(base), _found(at(records, axis="further"))
    shown = [
        (group, [(n, label) for n, label in own.items() if n in found])
        for group, own in groups().items()
    ]
    shown = [(group, own) for group, own in shown if own]
    slots = sum(len(own) for _, own in shown) + len(shown) - 1
    step = (WIDTH - LEFT - 20) / max(1, slots)
    ends = [v for f in [*found.values(), *hollow.values()] for v in (f.low, f.high)]
    low, high = min([-0.01, *ends]) - 0.002, max([0.01, *ends]) + 0.002

    def y(v: float) -> float:
        return TOP + (high - v) / (high - low) * (HEIGHT - TOP - BOTTOM)

    many = max((len(by_set(at(base, level=n))) for n in found), default=0)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 24, "What training for F1 gains over cross-entropy with a tuned threshold", 17),
        _text(LEFT, 44, f"Mean over {many} data sets, 95 % interval. "
              "Green: above zero; red: below; gray: cannot be told from zero."),
        _text(LEFT, 61, "Filled: the same model. Hollow: boosting with as many rounds again for "
              "F1, after all of log-loss."),
    ]  # fmt: skip
    for tick in np.arange(np.ceil(low / 0.02), np.floor(high / 0.02) + 1) * 0.02:
        heavy = abs(tick) < 1e-9
        out.append(_line_of(LEFT, y(tick), WIDTH - 20, y(tick), INK if heavy else "#dddddd"))
        out.append(_text(LEFT - 8, y(tick) + 4, "0" if heavy else f"{tick:+.2f}", anchor="end"))
    x = LEFT + step / 2
    for group, own in shown:
        middle = x + step * (len(own) - 1) / 2
        out.append(_text(middle, TOP - 12, group, anchor="middle", weight="bold"))
        unit = UNITS.get(group, "rounds")
        out.append(_text(middle, HEIGHT - 22, unit, anchor="middle", color=NEITHER))
        for name, label in own:
            out += _mark(x, y, found[name], name, True)
            if name in hollow:
                out += _mark(x + step / 3, y, hollow[name], f"{name}, further", False)
            out.append(_text(x, HEIGHT - 42, label, 12, anchor="middle"))
            x += step
        x += step
    return "\n".join([*out, "</svg>"]) + "\n"


def _found(records: list[dict]) -> dict[str, OverSets]:
    """By model, where there are sets enough for an interval."""
    own = {name: at(records, level=name) for name in CAPACITIES}
    return {name: summary(rows) for name, rows in own.items() if len(by_set(rows)) > 1}


def _mark(x: float, y: Callable, f: OverSets, name: str, filled: bool) -> list[str]:
    color = ABOVE if f.low > 0 else BELOW if f.high < 0 else NEITHER
    fill = color if filled else "white"
    return [
        _line_of(x, y(f.low), x, y(f.high), color, 3 if filled else 1.5),
        f'<circle cx="{x:.1f}" cy="{y(f.mean):.1f}" r="{5 if filled else 3.5}" fill="{fill}" '
        f'stroke="{color}" stroke-width="1.5">',
        f"<title>{escape(name)}: {escape(signed(f))}</title></circle>",
    ]


def _text(x, y, words, size=13, anchor="start", weight="normal", color=INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}" fill="{color}">{escape(words)}</text>'
    )


def _line_of(x1, y1, x2, y2, color, width=1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-width="{width}"/>'
    )
