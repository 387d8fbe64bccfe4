"""The real Trainer; ``make test-integrations`` installs it."""

from __future__ import annotations

import pytest
import torch

import softset as ss
from softset.integrations.hugging_face import compute_loss, compute_metrics

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")


class Rows(torch.utils.data.Dataset):
    """Sentences of twelve words; positive if the word 7 is in them."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.words = torch.randint(8, 50, (n, 12), generator=g)
        self.labels = (torch.rand(n, generator=g) < 0.3).long()
        self.words[self.labels == 1, 3] = 7

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": self.words[i], "labels": self.labels[i]}


@pytest.mark.filterwarnings("ignore")  # the libraries' own
@pytest.mark.parametrize("steps", [1, 4])
def test_a_trainer_learns_and_reports_f1(steps, tmp_path):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        num_labels=2,
    )
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        num_train_epochs=6,
        per_device_train_batch_size=64 // steps,
        gradient_accumulation_steps=steps,
        learning_rate=0.01,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        seed=0,
    )
    model = transformers.BertForSequenceClassification(config)
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
        logits = model(held_out.words).logits
    f1 = ss.evaluate(logits[:, 1] - logits[:, 0], held_out.labels, "f1")
    assert said["eval_f1"] == pytest.approx(f1)
    assert f1 > 0.9
