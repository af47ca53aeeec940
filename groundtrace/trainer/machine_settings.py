"""Defines the settings that describe the machine of a training, for estimates of the memory (``--estimate``)."""

from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import PositiveWeight, Weight, settings


@settings
class MachineSettings:
    """Describes the machine on which a training is to run, for estimates of its memory.

    ``server_gib`` is the memory, in GiB, that a server for sampling uses on each GPU of the training; 0 if the server
    uses other GPUs.
    """

    gpus: Annotated[PositiveInt, "--estimate: the number of GPUs over which the training is sharded"] = 1
    gpu_gib: Annotated[
        PositiveWeight | None,
        "--estimate: the memory of each of these GPUs in GiB, such as 78 for one of 80 GB; left out: no comparison",
    ] = None
    server_gib: Annotated[
        Weight,
        "the memory in GiB that a vLLM server uses on each training GPU; SFT without a validation uses no server",
    ] = 0.0
