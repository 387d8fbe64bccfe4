"""The real Lightning; ``make test-integrations`` installs it."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import softset as ss

lightning = pytest.importorskip("lightning")
CountedMetric = pytest.importorskip("softset.integrations.torchmetrics").CountedMetric


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=g)
    return x, (x[:, 0] + 0.3 * torch.randn(n, generator=g) > 1).long()


class Network(lightning.LightningModule):
    """The example of docs/integrations.md."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.loss, self.f1 = ss.MetricLoss("f1", ema_decay=0.9), CountedMetric("f1")

    def training_step(self, batch, _):
        x, y = batch
        loss = self.loss(self.layer(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.f1.update(self.layer(x), y)
        self.log("f1", self.f1)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_what_is_logged_is_the_f1_of_all_rows(tmp_path):
    torch.manual_seed(0)
    model, held_out = Network(), rows(210, 1)
    trainer = lightning.Trainer(
        max_epochs=15,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    train = DataLoader(TensorDataset(*rows(512, 0)), 64, shuffle=True)
    trainer.fit(model, train, DataLoader(TensorDataset(*held_out), 16))
    x, y = held_out
    with torch.no_grad():
        z = model.layer(x).squeeze(1)
    f1 = ss.evaluate(z, y, "f1", from_logits=True)
    assert float(trainer.callback_metrics["f1"]) == pytest.approx(f1)
    assert f1 > 0.75
    batches = [
        ss.evaluate(a, b, "f1", from_logits=True)
        for a, b in zip(z.split(16), y.split(16), strict=True)
    ]
    assert abs(sum(batches) / len(batches) - f1) > 0.01  # the mean over batches is another number
    assert 0 <= float(trainer.callback_metrics["loss"]) <= 1
