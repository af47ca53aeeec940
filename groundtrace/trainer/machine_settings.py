"""Defines the settings of the machine that a config is meant for, which ``--estimate`` compares with the estimate."""

from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import PositiveWeight, Weight, settings


@settings
class MachineSettings:
    """Describes the machine that a training needs. A server that samples has GPUs of its own unless ``server_gib`` is
    set.
    """

    gpus: Annotated[PositiveInt, "--estimate: the number of GPUs over which the training is sharded"] = 1
    gpu_gib: Annotated[
        PositiveWeight | None,
        "--estimate: the memory of each of these GPUs in GiB, such as 78 for one of 80 GB; left out: no comparison",
    ] = None
    server_gib: Annotated[
        Weight,
        "the memory in GiB of each training GPU that another process uses, such as a vLLM server on the same GPU",
    ] = 0.0
