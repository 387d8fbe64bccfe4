"""Which networks: variants of ``MetricMLPClassifier``, measured on the tuning half of
``efficacy.py``.

    python benchmarks/efficacy_networks.py run [--splits 1] [--rows 1000] [--models A,B]
    python benchmarks/efficacy_networks.py show

Every variant has five folds; each member leaves one out. The cut is tuned on out-of-fold scores by
the one tuner, and judged on test rows. The seconds of "8 pieces" are those of both of its phases.
What was measured is kept in ``results/efficacy_networks.jsonl`` and not measured again. The lines
``before`` were made with the sources of commit a5b7923, in which all members held out the same
fifth of the rows.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from scipy.stats import wilcoxon
from sklearn.metrics import average_precision_score
from torch import Tensor

from efficacy import OUT, SEED, Split, arguments, halves, load, read, splits, value
from softset.decisions.tuner import Tuner
from softset.losses.soft_metric import MetricLoss
from softset.metrics.registry import get_metric
from softset.tables.scaling import Scaler
from softset.tasks import BINARY
from softset.training.networks import Mlp, score
from softset.training.updates import Updater

FOLDS, EPOCHS, PATIENCE, RATE, DECAY = 5, 200, 10, 0.003, 0.01


class Encoder:
    """Scaled and squashed values; with ``bins``, pieces between quantiles beside them."""

    def __init__(self, x: np.ndarray, bins: int) -> None:
        self.scaler, edges = Scaler.of(x, np.ones(len(x))), []
        bins = min(bins, 512 // x.shape[1])
        for j in range(x.shape[1] if bins > 1 else 0):
            at = np.unique(np.quantile(x[:, j], np.linspace(0, 1, bins + 1)))
            if len(at) > 2:
                edges += [(j, low, high - low) for low, high in pairwise(at)]
        self.edges = np.array(edges).reshape(-1, 3)

    def __call__(self, x: np.ndarray) -> Tensor:
        column, low, width = self.edges.T
        pieces = np.clip((x[:, column.astype(int)] - low) / width, 0, 1)
        return torch.from_numpy(np.concatenate([self.scaler(x), pieces], 1)).float()


@dataclass(frozen=True)
class Trained:
    """Probabilities out of fold, and of new inputs."""

    oof: Tensor
    predict: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Variant:
    """Members that stop by the mean of their losses (``together``) or each by its own; after
    cross-entropy, with ``metric``, the soft metric at a tenth of the rate."""

    bins: int = 0
    together: bool = True
    metric: bool = False
    members: int = 10
    hidden: tuple[int, int] = (64, 32)

    def train(self, x: Tensor, y: Tensor, fold: np.ndarray) -> list[Trained]:
        """What each phase ends with."""
        net, seeds = Mlp(x.shape[1], self.hidden, 1), range(self.members)
        flat = net.start(list(seeds), torch.float32)[0]
        left_out = np.arange(self.members) % FOLDS
        held = torch.from_numpy(fold == left_out[:, None]).double()
        rows = [torch.from_numpy(np.flatnonzero(fold != k)) for k in left_out]
        random, best, ends = torch.Generator().manual_seed(SEED), flat.clone(), []
        losses = [_cross_entropy, *([MetricLoss("f1").of_members] if self.metric else [])]
        for phase, loss in enumerate(losses):
            flat = best.clone()
            rates = torch.full((self.members,), RATE * 0.1**phase, dtype=torch.float64)
            update = Updater("adamw", flat, rates, torch.full_like(rates, DECAY))
            least = self._judged(net, flat, x, y, held, loss)
            waited = torch.zeros(self.members, dtype=torch.long)
            for _ in range(EPOCHS):
                for part in _batches(rows, random):
                    own = flat.detach().requires_grad_()
                    z = net.forward(own, {}, x[part], False).squeeze(-1)
                    (grad,) = torch.autograd.grad(loss(z, y[part], None).sum(), own)
                    update.step(flat, grad)
                found = self._judged(net, flat, x, y, held, loss)
                better = (found < least) & (waited < PATIENCE)
                least, best[better] = torch.where(better, found, least), flat[better]
                waited = torch.where(better, 0, waited + 1)
                if (waited >= PATIENCE).all():
                    break
            ends.append(_of_members(net, best.double(), x, held))
        return ends

    def _judged(self, net: Mlp, flat: Tensor, x: Tensor, y: Tensor, held: Tensor, loss: Any) -> Any:
        found = loss(score(net, flat, {}, x, BINARY).double(), y, held)
        return found.mean().expand_as(found) if self.together else found


def _of_members(net: Mlp, weights: Tensor, x: Tensor, held: Tensor) -> Trained:
    def probabilities(inputs: Tensor) -> Tensor:
        return torch.sigmoid(score(net, weights, {}, inputs.double(), BINARY))

    oof = (probabilities(x) * held).sum(0) / held.sum(0)
    return Trained(oof, lambda inputs: probabilities(inputs).mean(0))


def _cross_entropy(z: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
    each = F.binary_cross_entropy_with_logits(z, y.expand_as(z).to(z), reduction="none")
    return each.mean(1) if w is None else (each * w).sum(1) / w.sum(1)


def _batches(rows: list[Tensor], random: torch.Generator) -> Any:
    """As even as can be, of as many rows for every member."""
    length = min(len(own) for own in rows)
    order = torch.stack([own[torch.randperm(len(own), generator=random)[:length]] for own in rows])
    size = min(1024, max(32, length // 10))
    return torch.tensor_split(order, math.ceil(length / size), 1)


@dataclass(frozen=True)
class Shared:
    """TabM-mini (arXiv 2410.24210): the members of a fold share all weights but a first scaling of
    the inputs, which begins at 1 or -1, and the last layer."""

    bins: int = 8
    members: int = 8
    hidden: tuple[int, int] = (128, 64)

    def train(self, x: Tensor, y: Tensor, fold: np.ndarray) -> list[Trained]:
        random, inputs = torch.Generator().manual_seed(SEED), x.shape[1]
        (first, second), m = self.hidden, self.members

        def start(*shape: int, fan: int) -> Tensor:
            uniform = torch.rand(FOLDS, *shape, generator=random) * 2 - 1
            return (uniform / math.sqrt(fan)).requires_grad_()

        signs = torch.randint(0, 2, (FOLDS, m, 1, inputs), generator=random) * 2.0 - 1
        weights = [
            signs.requires_grad_(),
            start(inputs, first, fan=inputs),
            start(1, first, fan=inputs),
            start(first, second, fan=first),
            start(1, second, fan=first),
            start(m, second, 1, fan=second),
            start(m, 1, 1, fan=second),
        ]

        def scores(part: Tensor, w: list[Tensor]) -> Tensor:
            h = (part[:, None] * w[0]).reshape(FOLDS, -1, inputs)
            h = torch.relu(torch.baddbmm(w[2], h, w[1]))
            h = torch.relu(torch.baddbmm(w[4], h, w[3])).reshape(FOLDS, m, -1, second)
            return (h @ w[5] + w[6]).squeeze(-1)

        def probabilities(part: Tensor) -> Tensor:
            with torch.no_grad():
                z = scores(part.expand(FOLDS, *part.shape), best)
                return torch.sigmoid(z.double()).mean(1)

        rows = [torch.from_numpy(np.flatnonzero(fold != k)) for k in range(FOLDS)]
        held = torch.from_numpy(fold == np.arange(FOLDS)[:, None]).double()
        optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=DECAY)
        least, waited = math.inf, 0
        best = [w.detach().clone() for w in weights]
        for _ in range(EPOCHS):
            for part in _batches(rows, random):
                z = scores(x[part], weights)
                loss = _cross_entropy(z.flatten(0, 1), y[part].repeat_interleave(m, 0), None)
                optimizer.zero_grad()
                (loss.sum() / m).backward()
                optimizer.step()
            before, best = best, [w.detach().clone() for w in weights]
            p = (probabilities(x) * held).sum(0).clamp(1e-9, 1 - 1e-9)
            found = float(F.binary_cross_entropy(p, y.double()))
            least, waited = (found, 0) if found < least else (least, waited + 1)
            best = best if waited == 0 else before
            if waited >= PATIENCE:
                break
        return [Trained((probabilities(x) * held).sum(0), lambda part: probabilities(part).mean(0))]


VARIANTS: dict[str, Variant | Shared] = {
    "folds, each stops by its own loss": Variant(together=False),
    "folds, all stop together": Variant(),
    "8 pieces": Variant(bins=8, metric=True),
    "16 pieces": Variant(bins=16),
    "8 pieces, members share weights": Shared(),
}
THEN = ", then the soft metric"
USED = "folds, all stop together"


def run(args: argparse.Namespace) -> None:
    done = {(r["set"], r["split"], r["variant"]) for r in read(args.out)}
    for name in halves(args.data_dir)["tune"]:
        for split in splits(load(args.data_dir, name, args.rows), args.splits):
            for label, variant in VARIANTS.items():
                wanted = not args.models or label in args.models
                if (
                    split.train.task == "binary"
                    and wanted
                    and (name, split.number, label) not in done
                ):
                    _append(args, split, label, variant)
        print(name, flush=True)


def _append(args: argparse.Namespace, split: Split, label: str, variant: Variant | Shared) -> None:
    train, test = split.train, split.test
    started = time.process_time()
    encoder = Encoder(train.x, variant.bins)
    found = variant.train(encoder(train.x), torch.from_numpy(train.y).float(), split.fold)
    seconds = time.process_time() - started
    order = np.random.RandomState(SEED).permutation(len(train.y))
    for number, trained in enumerate(found):
        oof, tested = (
            torch.logit(p.clamp(1e-12, 1 - 1e-12)).numpy()
            for p in (trained.oof, trained.predict(encoder(test.x)))
        )
        line: dict[str, Any] = {"set": train.name, "split": split.number, "rows": len(train.y)}
        line |= {"variant": label + THEN * number, "seconds": round(seconds, 2)}
        for metric in ("f1", "mcc"):
            decision = Tuner(get_metric(metric), "binary", clear=False).tune(
                oof[order], train.y[order]
            )
            line[metric] = round(value(decision(tested), test.y, None, metric, "binary"), 6)
        line["average_precision"] = round(average_precision_score(test.y, tested), 6)
        with open(args.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def show(args: argparse.Namespace) -> None:
    """Means over sets; what is gained against ``USED`` on the same sets, two-sided Wilcoxon p."""
    table = pd.DataFrame(read(args.out))
    metrics = ["f1", "mcc", "average_precision"]
    means = table.groupby(["variant", "set"])[[*metrics, "seconds"]].mean()
    print(f"Minus {USED!r} on the same sets; s is processor time.\n")
    print("| networks | sets | F1 | | p | MCC | | p | average precision | | s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in table["variant"].unique():
        own = means.loc[name]
        gains = (own - means.loc[USED].loc[own.index])[metrics].round(6)
        cells = [name, str(len(own))]
        for metric in metrics:
            cells += [f"{own[metric].mean():.4f}", f"{gains[metric].mean():+.4f}"]
            if metric != "average_precision":
                cells.append(f"{wilcoxon(gains[metric]).pvalue if gains[metric].any() else 1:.3f}")
        print("| " + " | ".join([*cells, f"{own['seconds'].mean():.1f}"]) + " |")


def main() -> None:
    args = arguments("run", "show")
    args.out = OUT.with_name("efficacy_networks.jsonl") if args.out == OUT else args.out
    show(args) if args.what == "show" else run(args)


if __name__ == "__main__":
    main()
