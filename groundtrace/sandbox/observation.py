"""What a call of code came to: the observation that goes back to the one who wrote the code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
"""An image: height × width × 3, RGB."""
Status = Literal["ok", "error", "timeout", "memory", "killed", "silent"]
"""``silent``: it ended well, and neither printed nor showed anything."""
STATUSES: tuple[str, ...] = get_args(Status)

MIN_SIDE_PX = 56
"""The short side of a smaller image becomes ENLARGED_SIDE_PX, as in CodeDance's released environment."""
ENLARGED_SIDE_PX = 112
_MAX_COUNT = 1 << 40
MAX_ASPECT = 200
"""Images longer than this times their width, or the other way round, are left out: vision encoders refuse them."""


class BadAnswer(Exception):
    """What came out of the sandbox is no observation."""


@dataclass(frozen=True, eq=False)
class Observation:
    """How a call ended, what it printed, and the images that it showed, in order.

    Attributes:
        status: how it ended. In all cases but ``ok`` and ``silent`` the trajectory's state is that before the call.
        stdout: what it printed, up to the limit.
        stderr: likewise, warnings for example.
        error: the exception with its traceback, or what the call was ended for; empty if it ended well.
        images: what it showed.
        dropped_chars: bytes that it printed beyond the limits, of stdout and stderr together.
        images_left_out: images beyond the limit, or of an aspect that no model takes.
        ended_threads: threads that it left, which were ended.
        ended_processes: processes that it left, which were ended.
        duration_s: from the request to the answer.
    """

    status: Status
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    images: tuple[Pixels, ...] = ()
    dropped_chars: int = 0
    images_left_out: int = 0
    ended_threads: int = 0
    ended_processes: int = 0
    duration_s: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether the code ran to its end, so that the state goes on from there."""
        return self.status in ("ok", "silent")

    @property
    def text(self) -> str:
        """As a policy reads it: what was printed, the error, and what was cut or ended."""
        notes = [
            f"[{self.dropped_chars} further characters are left out]" if self.dropped_chars else "",
            f"[{self.images_left_out} further images are left out]" if self.images_left_out else "",
            f"[{self.ended_threads} threads and {self.ended_processes} processes that the code left were ended]"
            if self.ended_threads or self.ended_processes
            else "",
        ]
        silent = "[the code printed nothing and showed no image]" if self.status == "silent" else ""
        parts = (self.stdout, self.stderr, self.error, silent, *notes)
        return "\n".join(part.rstrip("\n") for part in parts if part)


def observation_of(
    header: Mapping[str, Any], parts: Sequence[bytes], max_output_chars: int, max_pixels: int
) -> Observation:
    """The observation of what came out of the sandbox, none of which is trusted. Raises BadAnswer."""
    status, sizes = header.get("status"), header.get("sizes")
    if status not in STATUSES or not isinstance(sizes, list) or len(parts) != len(sizes) + 2:
        raise BadAnswer(f"status {str(status)[:20]!r} with {len(parts)} parts")
    stdout, stderr = (_text_of(part, max_output_chars) for part in parts[:2])
    images = [_image_of(size, data, max_pixels) for size, data in zip(sizes, parts[2:], strict=True)]
    shown = tuple(_large_enough(image) for image in images if max(image.shape[:2]) <= MAX_ASPECT * min(image.shape[:2]))
    threads, processes = _counts(header, "ended", 2)
    cut = sum(max(0, len(part.decode("utf-8", "replace")) - max_output_chars) for part in parts[:2])
    if status == "ok" and not (stdout.strip() or stderr.strip() or shown):
        status = "silent"
    return Observation(
        status,  # type: ignore[arg-type] (one of STATUSES)
        stdout,
        stderr,
        _clean(str(header.get("error") or "")),
        shown,
        sum(_counts(header, "dropped", 2)) + cut,
        _count(header.get("left_out")) + len(images) - len(shown),
        threads,
        processes,
        float(header["duration_s"]),
    )


def _text_of(data: bytes, max_chars: int) -> str:
    return _clean(data.decode("utf-8", "replace")[:max_chars])


def _clean(text: str) -> str:
    """Without what is no character, and without NUL, which no column of text takes."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise BadAnswer(f"{str(value)[:20]!r} is no count")
    return value


def _counts(header: Mapping[str, Any], name: str, number: int) -> list[int]:
    values = header.get(name)
    if not isinstance(values, list) or len(values) != number:
        raise BadAnswer(f"{name} is no list of {number} counts")
    return [_count(value) for value in values]


def _image_of(size: object, data: bytes, max_pixels: int) -> Pixels:
    """The pixels, which are raw: no decoder of the host reads what model-written code made."""
    if not isinstance(size, list) or len(size) != 2:
        raise BadAnswer("the size of an image is no height and width")
    height, width = map(_count, size)
    if not 0 < height * width <= max_pixels or len(data) != 3 * height * width:
        raise BadAnswer(f"an image of {height} × {width} pixels in {len(data)} bytes")
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


def _large_enough(image: Pixels) -> Pixels:
    """A small image enlarged, so that a vision encoder takes it."""
    height, width = image.shape[:2]
    if min(height, width) >= MIN_SIDE_PX:
        return image
    scale = ENLARGED_SIDE_PX / min(height, width)
    size = (round(width * scale), round(height * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_CUBIC), np.uint8)
