"""Makes optimiser steps with float32 master weights, AdamW with or without Muon, a schedule and gradient clipping.

In a sharded model, the float32 copies, gradients and moments of the weights are sharded, too. Each rank updates its own
part. All ranks clip by the norm of the whole gradient.

Weights in 16 bits have a float32 copy (master weights). The optimiser updates this copy, and copies it back. Without
the copy, an update smaller than the last bit of a weight would be lost. Gradients are accumulated in float32 on the
copy as soon as they are computed.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from groundtrace.trainer import ranks
from groundtrace.trainer.optimiser_settings import OptimiserSettings
from groundtrace.trainer.sharding import local, whole


class NotFinite(RuntimeError):
    """Raised if a loss, a gradient or a weight is not a finite number."""


class Optimiser:
    """Updates the trainable weights of one model, step by step.

    Attributes:
        steps: the number of optimiser steps that the learning rate schedule covers.
        masters: the float32 weights by name.
        updates: the number of updates of the weights that have been started, including one that has not finished.
        before_change: a function that is called before each update of the weights.
    """

    MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer")
    """The names of the tensors that torch's optimisers keep for each weight, of the weight's shape."""

    def __init__(self, model: nn.Module, settings: OptimiserSettings, steps: int) -> None:
        self.settings, self.steps = settings, steps
        self.updates = 0
        self.before_change: Callable[[], None] = lambda: None
        self.masters: dict[str, nn.Parameter] = {}
        self._weights: dict[str, nn.Parameter] = {}
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                self._add(name, weight)
        if not self.masters:
            raise ValueError("the model has no weights to train: all of its weights are frozen")
        self._optimisers = list(self._make())

    def _add(self, name: str, weight: nn.Parameter) -> None:
        self._weights[name] = weight
        if weight.dtype == torch.float32:
            self.masters[name] = weight
            return
        master = nn.Parameter(weight.detach().float())
        master.grad = torch.zeros_like(master)
        self.masters[name] = master

        def hand_over(tensor: torch.Tensor, master: nn.Parameter = master) -> None:
            assert master.grad is not None and tensor.grad is not None
            master.grad += tensor.grad
            tensor.grad = None

        weight.register_post_accumulate_grad_hook(hand_over)

    def _make(self) -> Iterator[torch.optim.Optimizer]:
        s = self.settings
        muon = [w for n, w in self.masters.items() if s.muon_lr > 0 and w.ndim == 2 and not _is_table(n)]
        chosen = {id(weight) for weight in muon}
        rest = [weight for weight in self.masters.values() if id(weight) not in chosen]
        if muon:
            yield torch.optim.Muon(muon, lr=s.muon_lr, weight_decay=s.weight_decay)
        decayed = [weight for weight in rest if weight.ndim > 1]
        others = [weight for weight in rest if weight.ndim <= 1]  # biases and the scales of norms
        parts = ((decayed, s.weight_decay), (others, 0.0))
        groups = [{"params": part, "weight_decay": decay} for part, decay in parts if part]
        if groups:
            yield torch.optim.AdamW(groups, lr=s.lr, betas=(s.beta1, s.beta2))

    def rate(self, step: int) -> float:
        """Return the factor of the learning rates at a step, counted from 0.

        Each configured learning rate is multiplied by this factor.
        """
        s, warmup = self.settings, self.settings.warmup_of(self.steps)
        if step < warmup:
            return (step + 1) / warmup
        if s.schedule == "constant":
            return 1.0
        done = (step - warmup) / max(1, self.steps - warmup)
        left = (1 + math.cos(math.pi * done)) / 2 if s.schedule == "cosine" else 1 - done
        return s.final_share + (1 - s.final_share) * left

    def rates(self, step: int) -> dict[str, float]:
        """Return the learning rates at a step, counted from 0, by their names in the metrics."""
        full = {"lr": self.settings.lr} | ({"muon_lr": self.settings.muon_lr} if self.settings.muon_lr else {})
        return {name: rate * self.rate(step) for name, rate in full.items()}

    def is_finite(self) -> bool:
        """Return whether all weights are finite."""
        own = all(bool(local(master).isfinite().all()) for master in self.masters.values())
        return all(ranks.gathered(own))

    def step(self, step: int) -> float:
        """Make one optimiser step and clear the gradients; return the norm of the gradient before clipping.

        ``step`` is the number of the step, counted from 0. Raises NotFinite if the norm is not finite. In this case the
        weights are unchanged, and the gradients are cleared.
        """
        norm = float(whole(nn.utils.clip_grad_norm_(self.masters.values(), self.settings.max_grad_norm)))
        if not math.isfinite(norm):
            self._clear()
            raise NotFinite(
                f"the norm of the gradient is {norm}, which is not finite: lower lr in sft.optimiser or grpo.optimiser"
            )
        self.before_change()
        self.updates += 1
        for optimiser in self._optimisers:
            full = self.settings.muon_lr if isinstance(optimiser, torch.optim.Muon) else self.settings.lr
            for group in optimiser.param_groups:
                group["lr"] = full * self.rate(step)
            optimiser.step()
        self._clear()
        self._copy_back()
        return norm

    def _clear(self) -> None:
        for name, master in self.masters.items():
            if master is self._weights[name]:
                master.grad = None
            elif master.grad is not None:
                master.grad.zero_()

    @torch.no_grad()
    def _copy_back(self) -> None:
        for name, master in self.masters.items():
            if master is not self._weights[name]:
                self._weights[name].copy_(master)

    def weights_by_optimiser(self) -> list[list[torch.Tensor]]:
        """Return one list of weights for each optimiser of torch, in the order of that optimiser's state."""
        return [[weight for group in each.param_groups for weight in group["params"]] for each in self._optimisers]

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which a run resumes: the master weights and the states of the optimisers."""
        masters = {name: master.detach() for name, master in self.masters.items()}
        return {"masters": masters, "optimisers": [optimiser.state_dict() for optimiser in self._optimisers]}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned.

        Raises ValueError if the weights in the state have other names than the weights of this model.
        """
        if set(state["masters"]) != set(self.masters):
            raise ValueError(
                "the checkpoint does not hold the weights that this config trains: use the config of the "
                "checkpoint's run"
            )
        for name, master in self.masters.items():
            master.copy_(state["masters"][name])
        for optimiser, saved in zip(self._optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self._copy_back()


def _is_table(name: str) -> bool:
    """Return whether a matrix is an embedding table or the output layer. Muon does not train them.

    They do not map hidden states to hidden states.
    """
    return any(part in name for part in ("embed", "lm_head"))
