"""Writes and reads the optimiser's state of a training on several GPUs, with torch's distributed checkpoints (DCP).

Each rank (the process of one GPU) writes its part of every tensor to a safetensors file. Any number of ranks can read
the files, because each rank reads only the parts that it needs. DCP's default format is not used: its index is pickled,
and a pickle could run code when it is read.

A state is nested as in :meth:`groundtrace.trainer.optimiser.Optimiser.state_dict`. In the files, its tensors have flat
names such as ``masters.lm_head.weight`` and ``optimisers.0.5.exp_avg``. In this example, 0 is the number of an
optimiser, and 5 is the number of a weight in this optimiser.
"""

import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from groundtrace.trainer import ranks
from groundtrace.trainer.optimiser import Optimiser
from groundtrace.trainer.sharding import is_sharded, placed_like

FOLDER = "shards"
"""The name of the folder, in the folder of a checkpoint, that holds the files of all ranks."""
_MASTERS, _OPTIMISERS = "masters", "optimisers"


def write(folder: Path, state: Mapping[str, Any]) -> dict[str, Any]:
    """Write the sharded tensors of an optimiser's state to files in ``folder``; return the state without them.

    A tensor is sharded if each rank (the process of one GPU) holds a part of it. All ranks must call this function. If
    one rank cannot write, OSError is raised on all ranks.
    """
    kept, sharded = _split(state)
    try:
        save(sharded, storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True))
    except CheckpointException as error:
        raise OSError(_line(error)) from error
    return kept


def read(folder: Path, kept: Mapping[str, Any], optimiser: Optimiser | None) -> dict[str, Any]:
    """Return the complete state of an optimiser: ``kept``, together with the tensors in the files of ``folder``.

    ``kept`` is the part of the state that :func:`write` returned. The tensors are sharded like the weights of
    ``optimiser``: each rank (the process of one GPU) gets its part. If ``optimiser`` is None, each tensor is whole and
    on the CPU. If the weights are sharded, all ranks must call this function. If the files are damaged, or do not fit
    the optimiser, ValueError or an error of torch or safetensors is raised.
    """
    reader = HuggingFaceStorageReader(str(folder))
    sizes: Any = reader.read_metadata().state_dict_metadata
    likes = {} if optimiser is None else _likes(optimiser)
    targets = {name: _target(name, meta.size, meta.properties.dtype, likes) for name, meta in sizes.items()}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            load(targets, storage_reader=reader, no_dist=not any(map(is_sharded, targets.values())))
    except CheckpointException as error:
        raise ValueError(_line(error)) from error
    return _joined(kept, targets)


def placed(state: Mapping[str, Any], optimiser: Optimiser) -> dict[str, Any]:
    """Return an optimiser's state with its tensors divided among the ranks (the processes of the GPUs).

    ``state`` is a state with whole tensors, as a training of one process saves it. The tensors that belong to a weight
    of ``optimiser`` (its float32 copy and its moments) are divided in the same way as this weight. The other tensors
    stay whole. In a training of one process, the state is returned unchanged.
    """
    if ranks.count() == 1:
        return dict(state)
    likes = _likes(optimiser)
    flat = {name: value for name, value in _flat(state).items() if name in likes and value.shape == likes[name].shape}
    return _joined(state, {name: placed_like(value, likes[name]) for name, value in flat.items()})


def _likes(optimiser: Optimiser) -> dict[str, torch.Tensor]:
    """Return a dict from the flat name of each tensor in the optimiser's state to the tensor's float32 weight.

    The tensor is either a float32 weight itself (``masters.lm_head.weight``) or a moment of such a weight
    (``optimisers.0.5.exp_avg``). A moment has the shape of its weight and is sharded like the weight.
    """
    found: dict[str, torch.Tensor] = {f"{_MASTERS}.{name}": weight for name, weight in optimiser.masters.items()}
    for number, weights in enumerate(optimiser.weights_by_optimiser()):
        for place, weight in enumerate(weights):
            found |= {f"{_OPTIMISERS}.{number}.{place}.{key}": weight for key in Optimiser.MOMENTS}
    return found


def _target(name: str, size: torch.Size, dtype: torch.dtype, likes: Mapping[str, torch.Tensor]) -> torch.Tensor:
    like = likes.get(name)
    if like is None or not is_sharded(like):
        return torch.empty(size, dtype=dtype)
    if like.shape != size:
        raise ValueError(
            f"the tensor {name} has the shape {tuple(size)} in the checkpoint, but {tuple(like.shape)} in the model: "
            "use the model of the checkpoint"
        )
    return torch.zeros_like(like, requires_grad=False, dtype=dtype)


def _flat(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    found = {f"{_MASTERS}.{name}": value for name, value in state[_MASTERS].items()}
    for number, each in enumerate(state[_OPTIMISERS]):
        for place, values in each["state"].items():
            tensors = {key: value for key, value in values.items() if isinstance(value, torch.Tensor)}
            found |= {f"{_OPTIMISERS}.{number}.{place}.{key}": value for key, value in tensors.items()}
    return found


def _split(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    sharded = {name: value for name, value in _flat(state).items() if is_sharded(value)}
    optimisers = []
    for number, each in enumerate(state[_OPTIMISERS]):
        kept = {
            place: {key: v for key, v in values.items() if f"{_OPTIMISERS}.{number}.{place}.{key}" not in sharded}
            for place, values in each["state"].items()
        }
        optimisers.append({**each, "state": kept})
    masters = {name: value for name, value in state[_MASTERS].items() if f"{_MASTERS}.{name}" not in sharded}
    return {_MASTERS: masters, _OPTIMISERS: optimisers}, sharded


def _joined(kept: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    masters = dict(kept[_MASTERS])
    states = [{place: dict(values) for place, values in each["state"].items()} for each in kept[_OPTIMISERS]]
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == _MASTERS:
            masters[rest] = value
            continue
        number, place, key = rest.split(".")
        states[int(number)].setdefault(int(place), {})[key] = value
    optimisers = [{**each, "state": state} for each, state in zip(kept[_OPTIMISERS], states, strict=True)]
    return {_MASTERS: masters, _OPTIMISERS: optimisers}


def _line(error: CheckpointException) -> str:
    causes = [str(cause[0] if isinstance(cause, tuple) else cause) for cause in error.failures.values()]
    return " ".join("; ".join(causes).split())[:300]


logging.getLogger("torch.distributed.checkpoint").setLevel(logging.ERROR)
