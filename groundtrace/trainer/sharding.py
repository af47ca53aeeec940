"""Shards a model over the GPUs of all ranks with FSDP2, and gathers its weights for sampling and saving.

A rank is the process of one GPU. Each rank holds a part of every weight (``torch.distributed.fsdp.fully_shard``). To
gather a weight is to copy the parts of all ranks to each rank. The layers of the language model and of the vision tower
are gathered one after the other in the forward pass, and again in the backward pass. The remaining weights (embeddings,
output layer, final norm) are gathered once for both passes, because the output layer is computed in chunks after the
forward pass of the model. If the input and output embeddings are tied, they are a single weight. This weight is one of
the remaining weights, too.

The weights keep their number type. Gradients are summed over the ranks in float32. So each rank must divide its loss by
the total number of targets of all ranks. Targets are the tokens whose prediction is part of the loss. FSDP2 must not
change the number type of a layer's inputs: even in a bfloat16 model, the rotary positions of a vision tower are
float32. In a training of one process, every function leaves the model unchanged.
"""

import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from groundtrace.trainer import ranks

T = TypeVar("T")
_METHOD = "run_inside"


def shard(model: Any) -> None:
    """Divide the weights of a transformers model among all ranks (the processes of the GPUs).

    The part of each rank is moved to the GPU of this rank. The model is changed in place. Make the optimiser after this
    call, because the model gets new weights. All ranks must call this function. In a training of one process, this
    function does nothing.
    """
    if ranks.count() == 1:
        return
    for name, weight in model.named_parameters():
        if ".lora_" in name:  # adapters begin with random values
            weight.data.copy_(ranks.of_first(weight.data))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    how: dict[str, Any] = {
        "mesh": init_device_mesh(device, (ranks.count(),)),
        "mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False),
    }
    layers = set(model._no_split_modules)
    for module in model.modules():
        if type(module).__name__ in layers:
            fully_shard(module, **how)
    fully_shard(model.model.visual, **how)
    fully_shard(model, **how)
    for part in parts(model):
        part.set_gradient_divide_factor(1.0)  # a sum, where FSDP's default is a mean
        part.set_force_sum_reduction_for_comms(True)
    setattr(model, _METHOD, types.MethodType(lambda self, work: work(), model))
    register_fsdp_forward_method(model, _METHOD)
    with torch.no_grad():  # the first module that runs becomes the root, and `generate` runs the vision tower first
        as_forward(model, lambda: torch.zeros(()))


def parts(model: nn.Module) -> list[FSDPModule]:
    """Return the FSDP modules of a model. The weights of one such module are gathered together.

    The first of them is the model itself, with the weights that are in no other FSDP module. The list is empty if the
    model is not sharded.
    """
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def as_forward(model: Any, work: Callable[[], T]) -> T:
    """Call ``work`` as if it were the model's forward pass, and return its result.

    FSDP gathers weights and prepares the backward pass only in a forward pass. So code that computes with parts of a
    model outside the model's own forward pass must be run by this function. The result of ``work`` must be a tensor or
    a tuple of tensors.
    """
    if not isinstance(model, FSDPModule):
        return work()
    result = getattr(model, _METHOD)(work)
    if not torch.is_grad_enabled():
        model.reshard()  # no backward pass does it, and the next update would not reach the gathered weights
    return result


def unshard(model: Any) -> None:
    """Gather all weights of the model on each rank (the process of one GPU), e.g. to sample from it.

    After this, the model needs no exchange between ranks until :func:`reshard` is called. A model that is not sharded
    does not change.
    """
    for part in parts(model):
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()


def reshard(model: Any) -> None:
    """Free the weights that :func:`unshard` gathered, so that each GPU holds only its part of them."""
    for number, part in enumerate(parts(model)):
        part.set_reshard_after_forward(number > 0, recurse=False)
        part.reshard()


def gathered_parts(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield each FSDP module of a sharded model as a pair (prefix, module), with the weights of this module gathered.

    The weights are freed again when the next pair is requested. ``prefix`` is the start of the names of the module's
    weights. A module may contain other FSDP modules, as the model contains its layers. The weights of these inner
    modules are not gathered together with the outer module: they are still sharded (:func:`is_sharded`). If the model
    is not sharded, the only pair is ("", model). All ranks (the processes of the GPUs) must iterate over the modules.
    """
    if not isinstance(model, FSDPModule):
        yield "", model
        return
    for name, module in model.named_modules():
        if isinstance(module, FSDPModule):
            part: Any = module
            part.unshard()
            yield f"{name}." if name else "", part
            part.reshard()


def is_sharded(tensor: torch.Tensor) -> bool:
    """Return whether the tensor is divided among the GPUs' processes, so that this process holds only a part of it."""
    return isinstance(tensor, DTensor)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole tensor, joined from the parts of all ranks (the processes of the GPUs).

    If the tensor is sharded, all ranks must call this function. A tensor that is not sharded is returned unchanged.
    """
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a sharded tensor that this process holds; any other tensor is returned unchanged."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def placed_like(whole_tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return ``whole_tensor``, divided among the ranks (the processes of the GPUs) in the same way as ``like``.

    If ``like`` is not sharded, ``whole_tensor`` is returned unchanged. Every rank must hold the whole tensor.
    """
    if not isinstance(like, DTensor):
        return whole_tensor
    own = whole_tensor.to(like.to_local().device)
    return distribute_tensor(own, like.device_mesh, like.placements, src_data_rank=None)
