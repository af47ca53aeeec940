"""Provides the optimiser Muon for weights on a CPU. Its Newton-Schulz iteration is computed in float32.

``torch.optim.Muon`` computes this iteration in bfloat16. Many CPUs have no instructions for bfloat16, and need ten
times as long for bfloat16 as for float32.
"""

import math
from collections.abc import Callable
from typing import Any

import torch


class Float32Muon(torch.optim.Muon):
    """Updates matrices as ``torch.optim.Muon`` does, except that the Newton-Schulz iteration is computed in float32.

    Its state and its settings are those of ``torch.optim.Muon``, but the setting ``adjust_lr_fn`` is ignored. The
    learning rate of a matrix is always multiplied by sqrt(max(1, rows / columns)), as torch does if ``adjust_lr_fn`` is
    "original".
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all weights that have a gradient, and return the loss.

        ``closure`` is a function that computes and returns the loss. It is called before the update. If ``closure`` is
        None, no loss is computed, and the result is None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)
        return loss

    def _update(self, weight: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient, memory_format=torch.preserve_format)
        momentum, average = group["momentum"], state["momentum_buffer"]
        average.lerp_(gradient, 1 - momentum)
        update = gradient.lerp(average, momentum) if group["nesterov"] else average
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(update, alpha=-group["lr"] * math.sqrt(max(1, weight.size(0) / weight.size(1))))


def _orthogonal(matrix: torch.Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> torch.Tensor:
    """Return a nearly orthogonal matrix with the singular vectors of ``matrix`` (quintic Newton-Schulz iteration).

    ``coefficients`` are those of the iteration's polynomial, and ``steps`` is the number of iterations. ``matrix`` is
    first divided by its norm, or by ``eps`` if the norm is smaller.
    """
    a, b, c = coefficients
    x = matrix.T if matrix.size(0) > matrix.size(1) else matrix
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if matrix.size(0) > matrix.size(1) else x
