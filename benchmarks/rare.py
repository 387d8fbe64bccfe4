"""Rare positives in small batches: what is lost, and what wins it back.

    python benchmarks/rare.py run      # resumable: finished trainings are kept in --results
    python benchmarks/rare.py show     # the tables, from the results

Two sets: the credit card subset, whose legitimate rows are drawn in proportion to their weights, so
that a batch of 128 has a positive one time in five; and Synthetic 5 %. One network (32, 16), the
same start and the same rows for all ways; at most UPDATES steps of Adam, validated every CHECK
steps, the best kept, stopped after PATIENCE checks without a better one. For each way and trial the
learning rate is the one of RATES with the best F1 on the validation rows. F1 of the test rows
(weighted on credit card) is at the threshold 1/2 and at one that is tuned on the validation rows.

"accumulated" is the exact gradient of MICRO micro-batches. It is computed as one batch of that
many rows: `tests/test_many_ways.py` holds that the two are equal, and the first step of every
trial is made both ways here and compared.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import softset as ss
from common import DATA, append, load, read
from softset.tables.scaling import Scaler
from softset.tables.synthetic import load_synthetic

SETS = ("credit card", "synthetic 5 %")
BATCHES = (64, 128)
RATES = (0.001, 0.01)
TRIALS = 10
UPDATES, CHECK, PATIENCE = 1500, 50, 6
MICRO = 32
RESULTS = Path(__file__).parent / "results" / "rare.jsonl"


@dataclass
class Part:
    """Rows of one side of a split; ``w`` are the weights with which they count."""

    x: Tensor
    y: Tensor
    w: Tensor


def parts(name: str, trial: int) -> tuple[Part, Part, Part]:
    """Training, validation and test rows: 60, 20 and 20 %, each class on its own."""
    if name == "credit card":
        x, y, w = load(DATA, "creditcard")
    else:
        x, y = load_synthetic()
        w = np.ones(len(y))
    rest, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=trial)
    train, held = train_test_split(rest, test_size=0.25, stratify=y[rest], random_state=trial)
    scaler = Scaler.of(x[train].astype(np.float64), w[train])
    x = scaler(x.astype(np.float64))
    made = (
        Part(*(torch.from_numpy(np.array(a[i])) for a in (x, y, w))) for i in (train, held, test)
    )
    one, two, three = (Part(p.x.float(), p.y.long(), p.w.double()) for p in made)
    return one, two, three


# --- ways -----------------------------------------------------------------------------------------

Batch = tuple[Tensor, Tensor, Tensor | None]


def drawn(rows: Part, size: int, g: torch.Generator) -> Iterator[Batch]:
    """Rows in proportion to their weights, again and again."""
    while True:  # many batches by one draw, which goes through all weights
        for i in torch.multinomial(rows.w, 64 * size, replacement=True, generator=g).split(size):
            yield rows.x[i], rows.y[i], None


def stratified(rows: Part, size: int, g: torch.Generator) -> Iterator[Batch]:
    """``StratifiedBatches``, whose weights are multiplied by those of the rows."""
    batches = ss.StratifiedBatches(rows.y, size, generator=g)
    w = batches.weight * rows.w / rows.w.mean()
    while True:
        for i in map(torch.tensor, batches):
            yield rows.x[i], rows.y[i], w[i]


def whole(rows: Part, size: int, g: torch.Generator) -> Iterator[Batch]:
    """All rows with their weights."""
    while True:
        yield rows.x, rows.y, rows.w


@dataclass(frozen=True)
class Way:
    """A loss and how its batches are made; ``times`` as many rows as the batch size."""

    loss: Callable[[], nn.Module]
    batches: Callable[[Part, int, torch.Generator], Iterator[Batch]] = drawn
    times: int = 1


WAYS = {
    "plain mini-batches": Way(lambda: ss.MetricLoss("f1")),
    "ema_decay=0.9": Way(lambda: ss.MetricLoss("f1", ema_decay=0.9)),
    "ema_decay=0.99": Way(lambda: ss.MetricLoss("f1", ema_decay=0.99)),
    "stratified": Way(lambda: ss.MetricLoss("f1"), stratified),
    f"accumulated, {MICRO} micro-batches": Way(lambda: ss.MetricLoss("f1"), drawn, MICRO),
    "cross-entropy": Way(ss.CrossEntropyLoss),
}
FULL = "full batch"


def network(inputs: int, trial: int) -> nn.Module:
    torch.manual_seed(trial)
    return nn.Sequential(
        nn.Linear(inputs, 32),
        nn.ReLU(),
        nn.Linear(32, 16),
        nn.ReLU(),
        nn.Linear(16, 1),
        nn.Flatten(0),
    )


def check_accumulation(model: nn.Module, batch: Batch, size: int) -> None:
    """The gradient of micro-batches is that of their rows in one batch."""
    model, loss = copy.deepcopy(model).double(), ss.MetricLoss("f1")
    x, y, _ = batch
    loss(model(x.double()), y).backward()
    one = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    micro = list(zip(x.double().split(size), y.split(size), strict=True))
    ss.accumulate(model, loss, micro)
    both = zip(model.parameters(), one, strict=True)
    assert max(float((p.grad - g).abs().max()) for p, g in both) < 1e-12


def trained(way: Way, size: int, rate: float, trial: int, sides: tuple[Part, Part, Part]) -> dict:
    """One training; F1 of validation and test rows at 1/2 and at the tuned threshold."""
    rows, held, test = sides
    model = network(rows.x.shape[1], trial)
    loss, judge = way.loss(), way.loss()
    g = torch.Generator().manual_seed(1000 + trial)
    batches = way.batches(rows, size * way.times, g)
    optimizer = torch.optim.Adam(model.parameters(), rate, fused=True)
    best, lowest, waited, updates = copy.deepcopy(model.state_dict()), np.inf, 0, 0
    start = time.process_time()
    for updates in range(1, UPDATES + 1):
        batch = next(batches)
        if updates == 1 and way.times > 1:
            check_accumulation(model, batch, size)
        optimizer.zero_grad(set_to_none=True)
        loss(model(batch[0]), *batch[1:]).backward()
        optimizer.step()
        if updates % CHECK == 0:
            with torch.no_grad():
                value = float(judge(model(held.x), held.y, held.w))
            waited += 1
            if value < lowest:
                best, lowest, waited = copy.deepcopy(model.state_dict()), value, 0
            if waited == PATIENCE:
                break
    model.load_state_dict(best)
    with torch.no_grad():
        scores = {"held": model(held.x), "test": model(test.x)}
    cut = ss.best_threshold(scores["held"], held.y, "f1", sample_weight=held.w, from_logits=True)
    found = {"updates": updates, "seconds": time.process_time() - start}
    for side, part in (("held", held), ("test", test)):
        for name, threshold in (("half", 0.5), ("tuned", cut)):
            found[f"{side}_{name}"] = float(
                ss.evaluate(
                    scores[side],
                    part.y,
                    "f1",
                    threshold=threshold,
                    sample_weight=part.w,
                    from_logits=True,
                )
            )
    return found


def jobs() -> Iterator[tuple[str, int, str, int, float]]:
    """Set, trial, way, batch size (0: all rows), learning rate; trial by trial."""
    for trial in range(TRIALS):
        for name in SETS:
            for rate in RATES:
                yield name, trial, FULL, 0, rate
                for size in BATCHES:
                    for way in WAYS:
                        yield name, trial, way, size, rate


def run(results: Path) -> None:
    done = {tuple(r["job"]) for r in read(results)}
    todo = [job for job in jobs() if job not in done]
    torch.set_num_threads(1)
    sides: dict[tuple[str, int], tuple[Part, Part, Part]] = {}
    for number, job in enumerate(todo, 1):
        name, trial, way, size, rate = job
        if (name, trial) not in sides:
            sides = {(name, trial): parts(name, trial)}
        how = Way(lambda: ss.MetricLoss("f1"), whole) if way == FULL else WAYS[way]
        found = trained(how, size, rate, trial, sides[name, trial])
        append(results, {"job": list(job), **found})
        print(f"{number}/{len(todo)} {job}: {found['test_half']:.3f}", flush=True)


# --- tables ---------------------------------------------------------------------------------------


def whole_trials(records: list[dict]) -> list[int]:
    """The trials of which every training has been run."""
    done = {tuple(r["job"]) for r in records}
    return [t for t in range(TRIALS) if all(job in done for job in jobs() if job[1] == t)]


def chosen(records: list[dict], name: str, way: str, size: int, at: str) -> np.ndarray:
    """Test F1 of each trial, at the learning rate with the best F1 on the validation rows."""
    values = []
    for trial in whole_trials(records):
        own = [r for r in records if r["job"][:4] == [name, trial, way, size]]
        values.append(max(own, key=lambda r: r[f"held_{at}"])[f"test_{at}"])
    return np.array(values)


def spread(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"


def recovered(records: list[dict], name: str, size: int) -> str:
    """What of the gap between plain mini-batches and the full batch the best way wins back."""
    full = chosen(records, name, FULL, 0, "half")
    plain = chosen(records, name, "plain mini-batches", size, "half")
    gap = full - plain
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    lines = [
        f"{name}, batch {size}: full batch - plain = {gap.mean():+.3f} ± {error:.3f} (standard "
        f"error), {'significant' if gap.mean() > 2 * error else 'not significant'}."
    ]
    gains = {
        way: (chosen(records, name, way, size, "half") - plain).mean()
        for way in WAYS
        if way not in ("plain mini-batches", "cross-entropy")
    }
    best = max(gains, key=lambda way: gains[way])
    shares = ", ".join(f"{way} {gain:+.3f}" for way, gain in gains.items())
    lines.append(f"  above plain: {shares}")
    if gap.mean() > 2 * error:
        lines.append(f"  {best} wins back {100 * gains[best] / gap.mean():.0f} % of the gap")
    return "\n".join(lines)


def show(results: Path) -> None:
    records = read(results)
    minutes = sum(r["seconds"] for r in records) / 60
    trials = whole_trials(records)
    print(f"trials {trials} of {TRIALS}, rates {RATES}, {minutes:.0f} core-minutes so far\n")
    if len(trials) < 2:
        print("Too few: run `python benchmarks/rare.py run`.")
        return
    for name in SETS:
        print(f"| {name} | 64: at 1/2 | tuned | 128: at 1/2 | tuned |\n|---|---|---|---|---|")
        for way in WAYS:
            cells = [
                spread(chosen(records, name, way, b, at))
                for b in BATCHES
                for at in ("half", "tuned")
            ]
            print(f"| {way} | {' | '.join(cells)} |")
        cells = [spread(chosen(records, name, FULL, 0, at)) for at in ("half", "tuned")]
        print(f"| {FULL} | {' | '.join(cells)} | {' | '.join(cells)} |\n")
    for name in SETS:
        for size in BATCHES:
            print(recovered(records, name, size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "show"])
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    {"run": run, "show": show}[given.what](given.results)


if __name__ == "__main__":
    main()
