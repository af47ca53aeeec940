"""Defines the settings of a sandbox: the limits of its trajectories, which are series of executions of code."""

from typing import Annotated

from groundtrace.config.settings import settings

_OVERHEAD_MB = 1024
"""The memory, in MiB, that the control group (the kernel's limit) allows in addition to ``memory_mb``.

With this margin, the supervisor (the first process in the sandbox) kills a process that needs too much memory before
the kernel does. The supervisor spares the process that holds the variables of the code; the kernel does not know which
process this is.
"""
_TIMES = ("call_timeout_s", "trajectory_timeout_s")


@settings
class SandboxSettings:
    """Holds the limits of each trajectory, and the number of trajectories that are open at the same time.

    A trajectory is a series of calls (executions of code) that share their state.
    """

    call_timeout_s: Annotated[float, "the maximum wall-clock time of a call, in seconds"] = 15.0
    trajectory_timeout_s: Annotated[float, "the maximum time of all calls of a trajectory together, in seconds"] = 120.0
    memory_mb: Annotated[int, "the maximum memory of all processes of a call together, in MiB"] = 2048
    folder_mb: Annotated[int, "the maximum total size, in MiB, of the files that a call leaves in its folder"] = 64
    max_processes: Annotated[int, "the maximum number of processes and threads of a trajectory"] = 64
    max_code_chars: Annotated[
        int, "the maximum number of characters of a call's code; longer code is an error, and is not run"
    ] = 100_000
    max_output_chars: Annotated[
        int, "the maximum number of characters of stdout, and of stderr; the rest is dropped"
    ] = 10_000
    max_images: Annotated[int, "the maximum number of images that a call shows; further images are left out"] = 10
    max_image_pixels: Annotated[
        int, "the maximum number of pixels of an image that a call shows; a larger image is reduced"
    ] = 4_194_304
    max_input_pixels: Annotated[
        int, "an input image with more than twice this number of pixels is refused (Pillow's MAX_IMAGE_PIXELS)"
    ] = 89_478_485
    sessions: Annotated[int, "the maximum number of open trajectories; a further one waits until one is closed"] = 8
    warm: Annotated[int, "the number of trajectories whose processes are started in advance"] = 2

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in _TIMES and value <= 0:
                raise ValueError(f"{name} must be a number above 0, got {value!r}")
            if name not in _TIMES and value < (least := 0 if name == "warm" else 1):
                raise ValueError(f"{name} must be a number of at least {least}, got {value!r}")

    @property
    def limits(self) -> dict[str, int]:
        """Return the limits by name, in the form in which the processes in the sandbox receive them.

        The last word of a name is the unit of its value: ``memory_mb`` is in MiB, ``max_answer_bytes`` in bytes, and
        ``max_image_pixels`` in pixels. ``max_processes`` and ``max_images`` are numbers of processes and images.
        """
        return {
            "memory_mb": self.memory_mb,
            "address_space_mb": self.memory_mb + 4096,
            "folder_mb": self.folder_mb,
            "max_processes": self.max_processes,
            "max_images": self.max_images,
            "max_image_pixels": self.max_image_pixels,
            "max_input_pixels": self.max_input_pixels,
            "max_output_bytes": 4 * self.max_output_chars,
            "max_answer_bytes": 3 * self.max_images * self.max_image_pixels,
        }

    @property
    def group_memory_mb(self) -> int:
        """Return the limit, in MiB, on the memory of all processes of a trajectory together.

        A trajectory is a series of executions of code that share their state.

        The limit also covers the memory of the supervisor (the first process in the sandbox) and of the files in the
        trajectory's folder.
        """
        return self.memory_mb + 4 * self.folder_mb + _OVERHEAD_MB
