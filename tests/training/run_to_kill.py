"""A run in a process of its own, to be killed: ``python run_to_kill.py KIND CHECKPOINT RESULT``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.training.helpers import make_binary, split


def train_many(checkpoint: str, epochs: int = 40) -> torch.Tensor:
    from softset.training.members import train_members  # noqa: PLC0415
    from softset.training.stack import Member  # noqa: PLC0415

    train, validation = split(*make_binary(dtype=torch.float32))
    members = [Member(seed=s, learning_rate=0.01 * (s + 1), dropout=0.1 * s) for s in range(4)]
    trained = train_members(
        (8, 4),
        train,
        validation,
        members=members,
        recipe="warm",
        batch_size=50,
        max_epochs=epochs,
        patience=8,
        checkpoint=checkpoint,
        checkpoint_seconds=0,
    )
    return trained.weights


def fit_one(checkpoint: str, epochs: int = 25) -> torch.Tensor:
    from torch import nn  # noqa: PLC0415
    from torch.utils.data import DataLoader, TensorDataset  # noqa: PLC0415

    from softset.training.single import fit  # noqa: PLC0415

    torch.manual_seed(3)
    train, validation = split(*make_binary(dtype=torch.float32))
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))
    fit(
        model,
        "anneal",
        DataLoader(TensorDataset(*train), 50, shuffle=True),
        DataLoader(TensorDataset(*validation), 50),
        scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 5),
        max_epochs=epochs,
        patience=3,
        checkpoint=checkpoint,
        checkpoint_seconds=0,
    )
    return torch.cat([p.detach().flatten() for p in model.state_dict().values()])


KINDS = {"many": train_many, "one": fit_one}

if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, path = sys.argv[1], sys.argv[2]
    weights = KINDS[kind](path)
    torch.save(weights, sys.argv[3])
