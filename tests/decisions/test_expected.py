from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import softset as ss
from softset.decisions import expected
from softset.decisions.expected import best_size


def expected_dice(p, mask):
    """By all possible truths, one by one."""
    total = 0.0
    for truth in itertools.product([0, 1], repeat=len(p)):
        chance = np.prod([q if t else 1 - q for q, t in zip(p, truth, strict=True)])
        size = sum(truth) + sum(mask)
        both = sum(t and m for t, m in zip(truth, mask, strict=True))
        total += chance * (2 * both / size if size else 1.0)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_no_mask_is_better_than_it(seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 1.5, size=6) if seed else np.full(6, 0.01)
    mask = ss.decisions.expected_dice_mask(p[None], from_logits=False)[0].int().tolist()
    best = max(expected_dice(p, m) for m in itertools.product([0, 1], repeat=6))
    assert expected_dice(p, mask) == pytest.approx(best, abs=1e-12)


def test_the_exact_values_are_the_expectations():
    p = np.sort(np.random.default_rng(0).uniform(size=5))[::-1]
    values = expected._exact(torch.tensor(p.copy()))
    for t in range(1, 6):
        wanted = expected_dice(p, [1] * t + [0] * (5 - t))
        assert values[t - 1].item() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_many_positions_lose_next_to_nothing(share):
    p = torch.from_numpy(np.random.default_rng(0).beta(share, 0.6, size=600))
    p = p.sort(descending=True).values
    exact, normal = expected._exact(p), expected._normal(p)
    chosen = int(normal.argmax())
    assert exact[chosen] > exact.max() - 1e-3
    assert best_size(p) in (chosen + 1, 0)
    assert (exact - normal).abs().max() < 0.02


def test_every_image_and_label_has_its_own_mask():
    rng = np.random.default_rng(1)
    z = torch.from_numpy(rng.normal(-1, 2, size=(3, 2, 4, 5)))
    masks = ss.decisions.expected_dice_mask(z, task="multilabel")
    assert masks.shape == z.shape
    for i, k in itertools.product(range(3), range(2)):
        alone = ss.decisions.expected_dice_mask(z[i : i + 1, k])
        assert torch.equal(masks[i, k], alone[0])
    channel = ss.decisions.expected_dice_mask(z[:, :1])
    assert torch.equal(channel[:, 0], ss.decisions.expected_dice_mask(z[:, 0]))


def test_on_calibrated_probabilities_it_beats_one_half():
    """Truths are drawn from the probabilities: one half is too high for thin masks."""
    g = torch.Generator().manual_seed(0)
    p = torch.rand(60, 8, 8, generator=g) * 0.6
    y = (torch.rand(60, 8, 8, generator=g) < p).long()
    settings = {"per": "image", "from_logits": False}
    half = ss.evaluate(p, y, "dice", **settings)
    ranked = ss.evaluate(p, y, "dice", decide="expected-dice", **settings)
    assert ranked > half + 0.1
    masks = ss.decisions.expected_dice_mask(p, from_logits=False).double()
    assert ranked == ss.evaluate(masks, y, "dice", **settings)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ss.decisions.expected_dice_mask([0.3, 0.4]), r"\(N, ...\) or \(N, 1, ...\)"),
        (
            lambda: ss.decisions.expected_dice_mask([[0.3]], task="multiclass"),
            "task must be one of",
        ),
        (lambda: ss.decisions.expected_dice_mask([[1.3]], from_logits=False), r"\[0, 1\]"),
        (lambda: ss.decisions.expected_dice_mask([[float("nan")]]), "NaN"),
        (
            lambda: ss.evaluate(
                [[0.3] * 3], [[1] * 3], "auroc", decide="expected-dice", from_logits=True
            ),
            "auroc",
        ),
        (
            lambda: ss.evaluate([[0.3] * 3], [[1] * 3], "dice", decide="best", from_logits=True),
            "decide must be one",
        ),
        (
            lambda: ss.evaluate(
                [[0.3] * 3],
                [[1] * 3],
                "dice",
                decide="expected-dice",
                threshold=0.2,
                from_logits=True,
            ),
            "Omit it",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
