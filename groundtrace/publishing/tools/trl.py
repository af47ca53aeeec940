"""Defines an environment for TRL's ``GRPOTrainer``, with the tool ``execute_python_code`` in Groundtrace's sandbox.

    GRPOTrainer(…, environment_factory=CodeEnvironment, reward_funcs=groundtrace_client.reward_funcs())

The rows come from ``beam export --format trl --turns tools``. The export also writes ``groundtrace_client.py``, the
client of Groundtrace's reward server. TRL calls ``reset`` with a row's columns. The environment uses the columns
``images`` and ``sandbox`` (the limits under which the run executed code). TRL passes its environments to the reward
functions. Groundtrace's reward functions leave a response unscored if the sandbox of its environment failed (``lost``).

TRL 1.16 calls the tools of a batch one after the other, so a slow call delays the other responses.
"""

from collections.abc import Sequence
from typing import Any

from PIL import Image

from groundtrace.grading.responses.turns import TOOL_SCHEMA
from groundtrace.inference.runtime import runtime
from groundtrace.publishing.tools.calls import MAX_IMAGES, Calls, limits_of, png_files
from groundtrace.sandbox import SandboxSettings


class CodeEnvironment:
    """Executes the code of responses for TRL, one response at a time.

    TRL makes one environment for each response in progress, and reuses it for later responses. ``sessions`` is the
    maximum number of responses that execute code at the same time in this process; None means the default.
    ``max_images`` is the maximum number of images that all calls of a response together may display. TRL offers all
    public methods to the policy (the model in training) as tools.
    """

    def __init__(self, sessions: int | None = None, max_images: int = MAX_IMAGES) -> None:
        self._sessions, self._max_images = sessions, max_images
        self._calls = Calls((), SandboxSettings())

    @property
    def lost(self) -> str:
        """Return the reason why the sandbox of the current response failed; "" if it did not fail."""
        return self._calls.lost

    @property
    def statuses(self) -> tuple[str, ...]:
        """Return how the code of each tool call of the response ended, such as ``("ok", "error")``."""
        return tuple(self._calls.statuses)

    def reset(self, images: Sequence[Image.Image] | None = None, sandbox: str = "", **_: Any) -> None:
        """Prepare for a new response to a row.

        ``images`` are the row's images. ``sandbox`` is the value of the row's column ``sandbox``: the limits under
        which code is executed, as JSON, or "" for the default limits. Raises ConfigError if a limit is unknown or has
        an invalid value.
        """
        self._calls = Calls(png_files(images or ()), limits_of(sandbox, self._sessions), self._max_images)

    def execute_python_code(self, code: str):  # without the result's type, which TRL would write into the schema
        """Execute the ``code`` of a call, and return its result as text and image parts.

        TRL describes the tool to the model in training by :data:`TOOL_SCHEMA`, and not by this text.
        """
        result = runtime().submit(self._calls.run(code)).result()
        parts: list[dict[str, Any]] = [{"type": "text", "text": result.text}] if result.text else []
        return [*parts, *({"type": "image", "image": image} for image in result.images)]


_FUNCTION: Any = TOOL_SCHEMA["function"]
_OF_CODE = _FUNCTION["parameters"]["properties"]["code"]["description"]
CodeEnvironment.execute_python_code.__doc__ = f"{_FUNCTION['description']}\n\nArgs:\n    code: {_OF_CODE}\n"
