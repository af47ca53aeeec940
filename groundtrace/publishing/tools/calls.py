"""Executes the tool calls of responses in Groundtrace's sandbox, for responses that another trainer generates.

All tools of this package use this module. A tool call contains code. Each call gets a new sandbox session. In this
session, the code of the response's earlier successful calls is executed again, and then the new code
(:mod:`groundtrace.sandbox.replay`). A response answers the question of one training row, which a run of Groundtrace
exported. The sandbox has the same limits as in that run. Groundtrace's own trainer executes calls in the same way. If a
sandbox fails, the response is *lost*. The policy (the model in training) did not cause the failure, so the reward
leaves the response unscored.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from PIL import Image

from groundtrace.config.settings import build
from groundtrace.grading.responses.turns import IMAGE, plain_output
from groundtrace.publishing.rewards.reference import read_reference
from groundtrace.publishing.rewards.settings import load_reward_settings
from groundtrace.rewards.rows.shards import Shards
from groundtrace.sandbox import SandboxLost, SandboxSettings
from groundtrace.sandbox.replay import run_after
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.storage.mirror import local_copy
from groundtrace.vision.decode import decode_image
from groundtrace.vision.overlay import encode_png

MAX_IMAGES = 16
"""The default for the maximum number of images that the calls of a response may show."""
LOST = "[the sandbox is gone; no further code can be executed]"
"""The result of a call whose sandbox failed, and of all later calls of the response."""
LEFT_OUT = "[image left out]"
KEPT_ROWS = 256


@dataclass(frozen=True)
class Result:
    """Holds the result of a tool call, which executed code in a sandbox.

    ``text`` is what the code printed, and ``images`` are the images that it displayed. ``status`` shows how the code
    ended, for example ``ok`` (:data:`groundtrace.sandbox.observation.Status`). If the sandbox failed, it is ``lost``.
    """

    text: str
    images: tuple[Image.Image, ...]
    status: str

    @property
    def marked_text(self) -> str:
        """Return what the code printed, followed by one ``<image>`` for each displayed image, as in SFT rows."""
        return "\n".join(filter(None, (self.text, IMAGE * len(self.images))))


@dataclass
class Calls:
    """Executes the tool calls of one response, one after the other.

    Attributes:
        images: the question's images, as the bytes of image files.
        limits: the limits under which the code of a response is executed, and how many responses may execute code at
            the same time in this process.
        max_images: the maximum number of images that all calls together may display; further images are left out.
        statuses: how the code of each finished call ended, in order, such as ``ok``.
        lost: the reason why a sandbox failed; "" if no sandbox failed.
    """

    images: tuple[bytes, ...]
    limits: SandboxSettings
    max_images: int = MAX_IMAGES
    statuses: list[str] = field(default_factory=list)
    lost: str = ""
    _earlier: list[str] = field(default_factory=list)
    _shown: int = 0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, code: str) -> Result:
        """Execute the code of a call, and return its result.

        The code of the response's earlier successful calls is executed again first, so the new code can use their
        variables. If another call of the response is running, this method waits until that call has ended.
        """
        async with self._turn:
            result = await self._result(code)
            self.statuses.append(result.status)
            return result

    async def _result(self, code: str) -> Result:
        if self.lost:
            return Result(LOST, (), "lost")
        try:
            seen = await run_after(self._earlier, code, self.images, shared_sandbox(self.limits))
        except SandboxLost as error:
            self.lost = str(error)
            return Result(LOST, (), "lost")
        if seen.is_good:
            self._earlier.append(code)
        shown = seen.images[: self.max_images - self._shown]
        self._shown += len(shown)
        text = [plain_output(seen.text), *[LEFT_OUT] * (len(seen.images) - len(shown))]
        return Result("\n".join(filter(None, text)), tuple(map(Image.fromarray, shown)), seen.status)


def limits_of(sandbox: str, sessions: int | None = None) -> SandboxSettings:
    """Return the limits of the sandbox in which the code of responses to a row is executed.

    ``sandbox`` is the value of the exported row's column ``sandbox``: JSON, or "" for the default limits. ``sessions``
    is the maximum number of responses that execute code at the same time; None means the default. Raises ConfigError if
    a limit is unknown or has an invalid value.
    """
    given = json.loads(sandbox) if sandbox else {}
    return build(SandboxSettings, given | ({} if sessions is None else {"sessions": sessions}), "sandbox")


@lru_cache(KEPT_ROWS)
def images_of(reference: str) -> tuple[bytes, ...]:
    """Return the images of a row, upright, as the bytes of PNG files.

    ``reference`` is the JSON text in an exported row that names the run and the row. Raises BadReference for a
    reference that cannot be read, and ShardError for a run that cannot be read. Raises UnusableRow if the run does not
    have exactly one row with this id, or if the row's fields are invalid.
    """
    named = read_reference(reference)
    row = _shards(named.run).named(named.id)
    return tuple(encode_png(decode_image(data).pixels) for data, _ in row.images)


@lru_cache(8)
def _shards(run: str) -> Shards:
    """Return the RL rows of a run. ``run`` is the run folder or its URL."""
    return Shards(local_copy(run), "rl", load_reward_settings().home / "rows")


def png_files(images: Sequence[Image.Image]) -> tuple[bytes, ...]:
    """Convert images that are already upright to the bytes of PNG files."""
    return tuple(encode_png(np.asarray(image.convert("RGB"))) for image in images)
