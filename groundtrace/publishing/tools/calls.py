"""The calls of one response in another trainer's rollout, executed in our sandbox: the parts that the tools share.

A call runs after the earlier successful calls of its response (:mod:`groundtrace.sandbox.replay`), with the limits of
the run that the row comes from, as in our own trainer's environment. If a sandbox fails, the response is *lost*: that
is not the fault of the policy, so the reward leaves the response unscored.
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
"""The most images that a response is shown, by default."""
LOST = "[the sandbox is gone; no further code can be executed]"
"""The result of a call, and of all later ones, where the sandbox failed."""
LEFT_OUT = "[image left out]"
KEPT_ROWS = 256


@dataclass(frozen=True)
class Result:
    """The result of a call: its text without marks of images, the images that it showed, and how it ended.

    ``status`` is that of :data:`groundtrace.sandbox.observation.Status`, or ``lost``.
    """

    text: str
    images: tuple[Image.Image, ...]
    status: str

    @property
    def marked_text(self) -> str:
        """The text with an ``<image>`` for each image behind it, as in the rows of SFT."""
        return "\n".join(filter(None, (self.text, IMAGE * len(self.images))))


@dataclass
class Calls:
    """The calls of one response, which are executed one after the other.

    Attributes:
        images: the question's images as files.
        limits: the limits of a trajectory, and how many run at once in this process.
        max_images: the images that the response may be shown; further ones are left out.
        statuses: how each call ended, in order.
        lost: the reason why a sandbox failed; "" if none did.
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
        """Execute the code after the earlier successful calls; a call that comes meanwhile waits."""
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
    """Return the limits in an exported row's column ``sandbox``, with ``sessions`` trajectories at once.

    Raises ConfigError for limits that cannot be used.
    """
    given = json.loads(sandbox) if sandbox else {}
    return build(SandboxSettings, given | ({} if sessions is None else {"sessions": sessions}), "sandbox")


@lru_cache(KEPT_ROWS)
def images_of(reference: str) -> tuple[bytes, ...]:
    """Return the images of the row that a reference names, upright, as PNG files.

    Raises BadReference, ShardError and UnusableRow.
    """
    named = read_reference(reference)
    row = _shards(named.run).named(named.id)
    return tuple(encode_png(decode_image(data).pixels) for data, _ in row.images)


@lru_cache(8)
def _shards(run: str) -> Shards:
    return Shards(local_copy(run), "rl", load_reward_settings().home / "rows")


def png_files(images: Sequence[Image.Image]) -> tuple[bytes, ...]:
    """Return upright images as PNG files."""
    return tuple(encode_png(np.asarray(image.convert("RGB"))) for image in images)
