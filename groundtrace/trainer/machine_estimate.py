"""Shows the memory that a config needs on 1, 2, 4 and 8 GPUs, and whether the config fits its machine.

The section ``machine`` of the config describes the machine. If ``machine.gpus`` is another number of GPUs, the memory
on this number of GPUs is shown, too. ``trainer sft|grpo --config CONFIG --estimate`` prints the table. The command
needs no weights, no data and no GPU: the model is built without values, and each row is as long as the config allows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from groundtrace.inference.endpoint import is_embedded, kind_of
from groundtrace.rewards.rows.settings import RewardSettings
from groundtrace.trainer.memory import (
    GIB,
    Estimate,
    cached_bytes,
    estimate,
    fullest_row,
    size_of,
)
from groundtrace.trainer.memory_advice import Step, refuse_if_too_large
from groundtrace.trainer.outline import outline_of, sizes_from
from groundtrace.trainer.settings import TrainerSettings

GPUS = (1, 2, 4, 8)


def print_estimate(settings: TrainerSettings, is_grpo: bool) -> str:
    """Print a table of the memory that the config needs, and return a sentence about whether it fits its machine.

    The first printed line names what is estimated. ``is_grpo`` is True for the command ``grpo``, and False for ``sft``.
    If ``machine.gpu_gib`` is not set, the sentence states that the memory was not compared. Raises ModelError if the
    model's config cannot be loaded. Raises DoesNotFit if the config needs more memory than the machine in the section
    ``machine`` has.
    """
    model, machine = outline_of(settings.model), settings.machine
    counts = sorted({*GPUS, machine.gpus})
    found = {gpus: estimate_on(model, settings, is_grpo, gpus) for gpus in counts}
    print(head_line(settings, is_grpo, counts))
    print(table(found))
    if is_grpo and settings.rollout.kind == "vllm":
        print(server_line(model, settings))
    if is_grpo and (line := reward_line(settings.reward)):
        print(line)
    if machine.gpu_gib is None:
        return "machine.gpu_gib is not set, so the estimate is not compared with a machine"
    needed = found[machine.gpus]
    refuse_if_too_large(Step(model, settings, None, is_grpo, machine.gpus), round(machine.gpu_gib * GIB))
    return (
        f"fits {_gpus(machine.gpus)} of {machine.gpu_gib:g} GiB: {needed.total / GIB:.1f} GiB are needed on each, if "
        f"each row has {settings.batch.max_tokens} tokens{_beside(settings.reward) if is_grpo else ''}"
    )


def _beside(settings: RewardSettings) -> str:
    """Return the end of a sentence for the user: which models of the reward the training loads on the same GPU.

    The sentence states that a config fits its machine. The result is "" if the training loads no such model.
    """
    models = {role: settings.endpoints[name] for role, name in settings.played.items()}
    here = [each for each in models.values() if kind_of(each.kind).in_process and not is_embedded(each)]
    names = ", ".join(dict.fromkeys(each.model for each in here))
    return f"; in addition, the training loads models of its reward on the same GPU: {names}" if names else ""


def head_line(settings: TrainerSettings, is_grpo: bool, counts: Sequence[int]) -> str:
    """Return a line that names what is estimated: SFT or GRPO, the model, the numbers of GPUs, and the tokens per row.

    ``is_grpo`` is True for the command ``grpo``, and False for ``sft``. ``counts`` are the numbers of GPUs.
    """
    gpus = " or ".join([", ".join(map(str, counts[:-1])), _gpus(counts[-1])])
    return (
        f"memory of a step of {'GRPO' if is_grpo else 'SFT'} with {settings.model.path} (sizes from "
        f"{sizes_from(settings.model)}) on {gpus}; no data are read: each row has {settings.batch.max_tokens} tokens "
        "(batch.max_tokens), as many of images as possible"
    )


def estimate_on(model: Any, settings: TrainerSettings, is_grpo: bool, gpus: int) -> Estimate:
    """Return the memory that a training step needs on each GPU, if each training row is as long as the settings allow.

    ``model`` may be an outline, i.e. a model whose weights have shapes but no values
    (:func:`groundtrace.trainer.outline.outline_of`). ``is_grpo`` is True for GRPO, and False for SFT. ``gpus`` is the
    number of GPUs.
    """
    return estimate(model, settings, fullest_row(model, settings, is_grpo), is_grpo, gpus)


def table(found: Mapping[int, Estimate]) -> str:
    """Return a text table of the estimated memory in GiB, with one line for each part of the memory.

    ``found`` maps each number of GPUs to its estimate. The table has one column for each number. Parts that are 0 in
    all columns are left out. A training step has phases, such as sampling and the update of the weights. An estimate
    includes only the phase that needs the most memory, and this phase may differ between the numbers of GPUs. If the
    estimate of a column does not include a part, because the part belongs to another phase, the cell is "-".
    """
    parts = {gpus: dict(each.parts) for gpus, each in found.items()}
    names = dict.fromkeys(name for each in parts.values() for name in each)
    shown = [name for name in names if any(each.get(name) for each in parts.values())]
    cells = {name: [_gib(each.get(name)) for each in parts.values()] for name in shown}
    cells["total on each GPU"] = [_gib(each.total) for each in found.values()]
    width = max(map(len, cells))
    lines = [_line("GiB", [_gpus(gpus) for gpus in found], width)]
    return "\n".join(lines + [_line(name, row, width) for name, row in cells.items()])


def server_line(model: Any, settings: TrainerSettings) -> str:
    """Return a sentence about the memory that a vLLM server needs to sample from ``model``.

    The sentence states the memory of the weights, and of the keys and values of one response. The table of the
    training's memory (:func:`table`) does not include the server's memory.
    """
    tokens = settings.batch.max_tokens
    weights, cached = size_of(model.parameters()) / GIB, cached_bytes(model, settings, tokens) / GIB
    where = "on GPUs of its own"
    if given := settings.machine.server_gib:
        where = f"in {given:g} GiB of each training GPU (machine.server_gib)"
    return (
        f"the vLLM server needs {weights:.1f} GiB for weights {where}, and {cached:.2f} GiB for the keys and values of "
        f"each response of {tokens} tokens"
    )


def reward_line(settings: RewardSettings) -> str | None:
    """Return a sentence that lists the models of the reward, whose memory is not part of the estimate.

    Each model has its role in front of it, such as judge. The embedded engine (image-processing code without a model)
    is left out. The result is None if no model is left.
    """
    models = {role: settings.endpoints[name] for role, name in settings.played.items()}
    shown = [f"{role} {each.model}" for role, each in models.items() if not is_embedded(each)]
    return f"not part of the estimate: the models of the reward ({', '.join(shown)})" if shown else None


def _gib(size: int | None) -> str:
    return "-" if size is None else f"{size / GIB:.1f}"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _line(name: str, cells: Sequence[str], width: int) -> str:
    return f"{name:<{width}}" + "".join(f"{cell:>9}" for cell in cells)
