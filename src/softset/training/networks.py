"""K networks of one shape as one: all parameters of member k are row k of one matrix ``[K, P]``.

So an optimizer is a few operations on that matrix, and a member leaves by leaving out its row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from softset.checks import check_integer
from softset.tasks import Task

Buffers = dict[str, Tensor]
# Hidden sizes of a perceptron, or a function that returns a new module.
NetworkLike = Sequence[int] | Callable[[], nn.Module]
# Numbers in one chunk of inputs when scoring: bounds memory.
_CHUNK = 2**22
# The same for perceptrons, whose layers are so quick that what leaves the cache costs a third.
_IN_CACHE = 2**18


class Network:
    """What both kinds share: the layout of a row. ``forward`` is theirs."""

    def __init__(self, shapes: dict[str, torch.Size]) -> None:
        self.shapes = shapes
        self.size = sum(shape.numel() for shape in shapes.values())

    def leaves(self, flat: Tensor) -> dict[str, Tensor]:
        """The parameters as views ``[K, *shape]`` of ``flat``."""
        parts = torch.split(flat, [shape.numel() for shape in self.shapes.values()], 1)
        shapes = self.shapes.items()
        return {
            name: p.view(len(flat), *shape) for (name, shape), p in zip(shapes, parts, strict=True)
        }

    def start(self, seeds: Sequence[int], dtype: torch.dtype) -> tuple[Tensor, Buffers]:
        """Fresh parameters ``[K, P]`` and buffers ``[K, ...]``, each member from its own seed."""
        raise NotImplementedError

    def forward(
        self,
        flat: Tensor,
        buffers: Buffers,
        x: Tensor,
        shared: bool,
        dropout: Dropout | None = None,
        step: int | None = None,
    ) -> Tensor:
        """Scores ``[K, N, outputs]`` of inputs ``[N, ...]`` (shared) or ``[K, N, ...]``.

        ``step`` numbers the update that is being made; ``None`` outside of training.
        """
        raise NotImplementedError

    def module(self, row: Tensor, buffers: Buffers) -> nn.Module:
        """One member as an ordinary module."""
        raise NotImplementedError


class Dropout:
    """A rate for each member and a generator for each, so that a member alone drops the same."""

    def __init__(self, rates: Tensor, generators: Sequence[torch.Generator]) -> None:
        self.rates, self.generators = rates, generators

    def masks(self, rows: int, widths: Sequence[int], like: Tensor) -> list[Tensor]:
        """Factors ``[K, rows, width]`` for each layer: 0 or ``1 / (1 - rate)``."""
        uniform = torch.ones(len(self.generators), rows, sum(widths), dtype=like.dtype)
        for row, rate, generator in zip(uniform, self.rates, self.generators, strict=True):
            if rate > 0:  # a member without dropout draws nothing, alone or in company
                torch.rand(row.shape, generator=generator, out=row)
        rates = self.rates.to(like.dtype)[:, None, None]
        factors = ((uniform >= rates) / (1 - rates)).to(like.device, like.dtype)
        return list(torch.split(factors, list(widths), -1))


class Mlp(Network):
    """Multilayer perceptrons with ReLU, as batched matrix products.

    >>> import torch
    >>> network = Mlp(6, (32, 16), 1)
    >>> flat, _ = network.start([0, 1, 2], torch.float32)
    >>> flat.shape
    torch.Size([3, 769])
    >>> network.forward(flat, {}, torch.zeros(5, 6), shared=True).shape
    torch.Size([3, 5, 1])
    """

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int) -> None:
        for width in hidden:
            check_integer("hidden_layer_sizes", width, 1)
        self.widths = (inputs, *(int(width) for width in hidden), outputs)
        shapes = {}
        for i, (a, b) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            shapes[f"weight{i}"] = torch.Size((a, b))
            shapes[f"bias{i}"] = torch.Size((1, b))
        super().__init__(shapes)
        self._memory: dict[str, Tensor] = {}
        self.passes = 0

    def scratch(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Memory that is used again at every update: fresh megabytes cost more than the sums."""
        size = math.prod(shape)
        memory = self._memory.get(name)
        if memory is None or len(memory) < size or memory.dtype != like.dtype:
            memory = self._memory[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return memory[:size].view(shape)

    def __repr__(self) -> str:
        return f"Mlp{self.widths}"

    def start(self, seeds: Sequence[int], dtype: torch.dtype) -> tuple[Tensor, Buffers]:
        """Weights as of ``torch.nn.Linear``, a row for each seed."""
        # As torch.nn.Linear: uniform within 1 / sqrt(inputs).
        bounds = torch.cat(
            [
                torch.full(((a + 1) * b,), a**-0.5, dtype=dtype)
                for a, b in zip(self.widths, self.widths[1:], strict=False)
            ]
        )
        rows = [
            torch.rand(self.size, generator=torch.Generator().manual_seed(seed), dtype=dtype)
            for seed in seeds
        ]
        return (torch.stack(rows) * 2 - 1) * bounds, {}

    def forward(
        self,
        flat: Tensor,
        buffers: Buffers,
        x: Tensor,
        shared: bool,
        dropout: Dropout | None = None,
        step: int | None = None,
    ) -> Tensor:
        """Scores of all members: ``x`` is shared, or has one batch for each."""
        x = x.expand(len(flat), *x.shape) if shared else x
        hidden = self.widths[1:-1]
        masks = dropout.masks(x.shape[1], hidden, x) if dropout is not None and hidden else None
        if flat.requires_grad:
            return _MlpFunction.apply(flat, x, self, masks)  # type: ignore[no-untyped-call]
        leaves, last = self.leaves(flat), len(self.widths) - 2
        for i in range(last + 1):
            x = torch.baddbmm(leaves[f"bias{i}"], x, leaves[f"weight{i}"])
            x = x.relu_() if i < last else x
        return x

    def module(self, row: Tensor, buffers: Buffers) -> nn.Module:
        """One member as a ``torch.nn.Sequential``."""
        leaves = self.leaves(row.unsqueeze(0))
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            layer = nn.Linear(a, b, dtype=row.dtype, device=row.device)
            with torch.no_grad():
                layer.weight.copy_(leaves[f"weight{i}"][0].T)
                layer.bias.copy_(leaves[f"bias{i}"][0, 0])
            layers += [layer, nn.ReLU()]
        return nn.Sequential(*layers[:-1])


class _MlpFunction(torch.autograd.Function):
    """Forward and backward of ``Mlp`` in memory of its own. One at a time: ``forward`` again before
    ``backward`` spoils the activations, which is refused."""

    @staticmethod
    def forward(
        ctx: Any, flat: Tensor, x: Tensor, network: Mlp, masks: list[Tensor] | None
    ) -> Tensor:
        """Scores of all members; the inputs of each layer are kept for the backward pass."""
        leaves, last = network.leaves(flat), len(network.widths) - 2
        members, rows = x.shape[:2]
        inputs = [x]
        for i in range(last):
            h = network.scratch(f"h{i}", (members, rows, network.widths[i + 1]), x)
            torch.baddbmm(leaves[f"bias{i}"], inputs[-1], leaves[f"weight{i}"], out=h).relu_()
            inputs.append(h if masks is None else h.mul_(masks[i]))
        ctx.network, ctx.inputs, ctx.masks, ctx.flat = network, inputs, masks, flat
        network.passes += 1
        ctx.number = network.passes
        return torch.baddbmm(leaves[f"bias{last}"], inputs[-1], leaves[f"weight{last}"])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        network, inputs, g = ctx.network, ctx.inputs, grads[0]
        if network.passes != ctx.number:
            raise RuntimeError("another forward pass came before this backward.")
        leaves, out = network.leaves(ctx.flat), torch.empty_like(ctx.flat)
        parts = network.leaves(out)
        for i in reversed(range(len(inputs))):
            h = inputs[i]
            parts[f"weight{i}"].copy_(torch.bmm(h.mT, g))
            torch.sum(g, 1, keepdim=True, out=parts[f"bias{i}"])
            if i > 0:
                down = network.scratch(f"g{i}", h.shape, h)
                torch.bmm(g, leaves[f"weight{i}"].mT, out=down)
                g = down if ctx.masks is None else down.mul_(ctx.masks[i - 1])
                # What ReLU (or dropout) removed is exactly zero in h.
                torch.ops.aten.threshold_backward.grad_input(g, h, 0, grad_input=g)
        return out, None, None, None


class Stacked(Network):
    """Copies of any module, evaluated together with ``torch.func.vmap``.

    Random layers inside it (dropout) draw from a seed made of the number of the update: a run
    repeats itself and resumes exactly, but a member alone drops other units than in company.
    Running statistics of batch normalization are kept for each member.
    """

    def __init__(self, factory: Callable[[], nn.Module]) -> None:
        self.factory = factory
        with torch.random.fork_rng(devices=[]):
            self.base = factory()
        if not isinstance(self.base, nn.Module):
            raise ValueError(
                f"network must be hidden sizes or a function that returns a new torch.nn.Module, "
                f"got a function that returns {type(self.base).__name__}."
            )
        super().__init__({name: p.shape for name, p in self.base.named_parameters()})

    def __repr__(self) -> str:
        return f"Stacked({self.base})"

    def start(self, seeds: Sequence[int], dtype: torch.dtype) -> tuple[Tensor, Buffers]:
        """The parameters that the user's function gives after each seed."""
        modules = []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                modules.append(self.factory())
        parameters, buffers = stack_module_state(modules)
        flat = torch.cat(
            [parameters[name].detach().reshape(len(seeds), -1) for name in self.shapes], 1
        )
        buffers = {name: b.to(dtype) if b.is_floating_point() else b for name, b in buffers.items()}
        return flat.to(dtype), buffers

    def forward(
        self,
        flat: Tensor,
        buffers: Buffers,
        x: Tensor,
        shared: bool,
        dropout: Dropout | None = None,
        step: int | None = None,
    ) -> Tensor:
        """Scores of all members, by ``torch.func.vmap`` over the user's network."""
        self.base.train(step is not None)
        leaves = self.leaves(flat)

        def single(parameters: Buffers, state: Buffers, inputs: Tensor) -> Tensor:
            """The scores of one member."""
            return functional_call(self.base, (parameters, state), (inputs,))

        together = torch.vmap(single, (0, 0, None if shared else 0), randomness="different")
        if step is None:
            scores = together(leaves, buffers, x)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(step)
                scores = together(leaves, buffers, x)
        return scores.unsqueeze(-1) if scores.dim() == 2 else scores

    def module(self, row: Tensor, buffers: Buffers) -> nn.Module:
        """One member as the user's own module."""
        with torch.random.fork_rng(devices=[]):
            module = self.factory()
        state = {name: p[0] for name, p in self.leaves(row.unsqueeze(0)).items()}
        module = module.to(row.dtype)
        module.load_state_dict({**state, **buffers}, strict=False)
        return module.eval()


def make_network(network: NetworkLike, x: Tensor, outputs: int) -> Network:
    """Hidden sizes -> the fast perceptron; a factory of modules -> copies of it."""
    if isinstance(network, nn.Module):
        raise ValueError(
            "network must be a function that returns a new module (each member starts from its "
            f"own weights), got the module {type(network).__name__}. Pass lambda: YourModule()."
        )
    if callable(network):
        return Stacked(network)
    if isinstance(network, list | tuple):
        if x.dim() != 2:
            raise ValueError(
                f"network={network!r} takes inputs (N, features), got shape {list(x.shape)}. Pass "
                "a function that returns a torch.nn.Module."
            )
        return Mlp(x.shape[1], network, outputs)
    raise ValueError(
        f"network must be hidden sizes such as (32, 16) or a function that returns a new "
        f"torch.nn.Module, got {network!r}."
    )


@torch.no_grad()
def score(network: Network, flat: Tensor, buffers: Buffers, x: Tensor, task: Task) -> Tensor:
    """Logits ``[K, N]`` (binary) or ``[K, N, classes or labels]`` of inputs ``[N, ...]``, by chunks
    of rows."""
    numbers = _IN_CACHE if isinstance(network, Mlp) else _CHUNK
    size = max(1, numbers // max(1, len(flat) * max(x[0].numel(), 64)))
    parts = [network.forward(flat, buffers, part, True) for part in torch.split(x, size)]
    return arranged(torch.cat(parts, 1), task)


def arranged(scores: Tensor, task: Task) -> Tensor:
    """Scores ``[K, N, outputs]`` as losses want them: ``[K, N]`` for binary."""
    if not task.single:
        return scores
    if scores.shape[-1] != 1:
        raise ValueError(
            f"network must give one score a row for task='binary', got {scores.shape[-1]}."
        )
    return scores.squeeze(-1)
