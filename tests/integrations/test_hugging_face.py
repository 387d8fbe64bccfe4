"""The real Trainer; ``make test-integrations`` installs it."""

from __future__ import annotations

import pytest
import torch

import softset as ss
from softset.integrations.hugging_face import compute_loss, compute_metrics

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")


class Rows(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 4, generator=g)
        self.labels = (self.x[:, 0] + 0.3 * torch.randn(n, generator=g) > 0.6).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.labels[i]}


class Network(torch.nn.Module):
    """Two columns, as the library's classifiers have."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x, labels=None):
        return {"logits": self.layer(x)}


@pytest.mark.filterwarnings("ignore")  # the libraries' own
@pytest.mark.parametrize("steps", [1, 4])
def test_a_trainer_learns_and_reports_f1(steps, tmp_path):
    torch.manual_seed(0)
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        num_train_epochs=6,
        per_device_train_batch_size=64 // steps,
        gradient_accumulation_steps=steps,
        learning_rate=0.1,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        seed=0,
    )
    model = Network()
    held_out = Rows(200, 1)
    trainer = transformers.Trainer(
        model,
        arguments,
        train_dataset=Rows(512, 0),
        eval_dataset=held_out,
        compute_loss_func=compute_loss(ss.MetricLoss("f1")),
        compute_metrics=compute_metrics("f1"),
    )
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert min(logged) >= 0
    assert max(logged) <= 1
    said = trainer.evaluate()
    model.eval()
    with torch.no_grad():
        logits = model(held_out.x)["logits"]
    f1 = ss.evaluate(logits[:, 1] - logits[:, 0], held_out.labels, "f1", from_logits=True)
    assert said["eval_f1"] == pytest.approx(f1)
    assert f1 > 0.75
