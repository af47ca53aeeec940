"""Updates a model's weights: AdamW with or without Muon, a learning rate schedule, and gradient clipping.

Each 16-bit weight has a float32 copy (its master weight). The optimiser updates this copy, and then copies it back to
the weight. Without the copy, an update smaller than the last bit of a weight would be lost. Gradients are accumulated
in float32 on the copy as soon as they are computed.

In a model that is sharded over several GPUs, the float32 copies, gradients and moments of the weights are sharded, too.
Each rank (the process of one GPU) updates its part. All ranks clip by the norm of the whole gradient.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from groundtrace.trainer import ranks
from groundtrace.trainer.muon import Float32Muon
from groundtrace.trainer.optimiser_settings import OptimiserSettings
from groundtrace.trainer.sharding import local, whole


class NotFinite(RuntimeError):
    """Raised if a loss, a gradient or a weight is not a finite number."""


class Optimiser:
    """Updates the trainable weights of one model, step by step. Raises ValueError if all weights are frozen.

    Attributes:
        steps: the number of optimiser steps that the learning rate schedule covers.
        masters: the float32 weights by name.
        updates: the number of updates of the weights that have been started, including one that has not finished.
        before_change: a function that is called before each update of the weights.
    """

    MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer")
    """The names of the tensors that torch's optimisers hold for each weight. They have the weight's shape."""

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
            raise ValueError(
                "the model has no weights to train, because requires_grad is False for all of its weights: set it to "
                "True for at least one weight"
            )
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
            make = Float32Muon if muon[0].device.type == "cpu" else torch.optim.Muon
            yield make(muon, lr=s.muon_lr, weight_decay=s.weight_decay)
        decayed = [weight for weight in rest if weight.ndim > 1]
        others = [weight for weight in rest if weight.ndim <= 1]  # biases and the scales of norms
        parts = ((decayed, s.weight_decay), (others, 0.0))
        groups = [{"params": part, "weight_decay": decay} for part, decay in parts if part]
        if groups:
            yield torch.optim.AdamW(groups, lr=s.lr, betas=(s.beta1, s.beta2))

    def rate(self, step: int) -> float:
        """Return the factor by which each configured learning rate is multiplied at a step.

        The factor rises to 1 during the warm-up and then follows the schedule. ``step`` is counted from 0.
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
        """Return the learning rates at a step, by their names in the metrics: ``lr``, and ``muon_lr`` if Muon is used.

        ``step`` is counted from 0.
        """
        full = {"lr": self.settings.lr} | ({"muon_lr": self.settings.muon_lr} if self.settings.muon_lr else {})
        return {name: rate * self.rate(step) for name, rate in full.items()}

    def is_finite(self) -> bool:
        """Return whether all float32 weights are finite numbers, including those that other processes hold.

        In a training on several GPUs, all ranks (the processes of the GPUs) must call this method.
        """
        own = all(bool(local(master).isfinite().all()) for master in self.masters.values())
        return all(ranks.gathered(own))

    def step(self, step: int) -> float:
        """Make one optimiser step and clear the gradients; return the norm of the whole gradient before clipping.

        ``step`` is the number of the step, counted from 0. It selects the learning rate. Raises NotFinite if the norm
        is not finite. In this case the weights are unchanged, and the gradients are cleared.
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
        """Return the weights that each optimiser of torch (AdamW, Muon) updates, as one list for each optimiser.

        The weight at index n of a list has the key n in the state of this optimiser.
        """
        return [[weight for group in each.param_groups for weight in group["params"]] for each in self._optimisers]

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which a training resumes: the float32 weights and the states of torch's optimisers."""
        masters = {name: master.detach() for name, master in self.masters.items()}
        return {"masters": masters, "optimisers": [optimiser.state_dict() for optimiser in self._optimisers]}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the weights and the optimisers from a state that :meth:`state_dict` returned.

        Raises ValueError if the weights in the state have other names or shapes than the weights of this model. In this
        case nothing is restored.
        """
        if set(state["masters"]) != set(self.masters):
            raise ValueError(
                "the checkpoint does not hold the weights that this config trains: use the config of the "
                "checkpoint's run"
            )
        for name, master in self.masters.items():  # copy_() would broadcast a weight of another shape
            if (found := state["masters"][name].shape) != master.shape:
                raise ValueError(
                    f"{name} has the shape {tuple(found)} in the checkpoint, but {tuple(master.shape)} in the "
                    "model: set model.path to the model of the checkpoint"
                )
        for name, master in self.masters.items():
            master.copy_(state["masters"][name])
        for optimiser, saved in zip(self._optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self._copy_back()


def _is_table(name: str) -> bool:
    """Return whether the weight of this name is an embedding table or the output layer, which Muon does not train.

    Muon trains only matrices that map hidden states to hidden states.
    """
    return any(part in name for part in ("embed", "lm_head"))
