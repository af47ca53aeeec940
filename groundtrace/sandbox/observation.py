"""Defines the observation, which is the result of a call: what the code printed and showed, and how it ended.

A call is one execution of code. The policy (the model that wrote the code) gets the observation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from groundtrace.schemas.text import whole

Pixels = NDArray[np.uint8]
"""An image as RGB uint8 (H, W, 3)."""
Status = Literal["ok", "error", "timeout", "memory", "killed", "silent"]
"""How a call ended. ``silent``: it succeeded, but printed nothing and showed no image."""
STATUSES: tuple[str, ...] = get_args(Status)

MIN_SIDE_PX = 56
"""An image with a shorter side is enlarged until that side is ENLARGED_SIDE_PX, as in CodeDance's released environment.
"""
ENLARGED_SIDE_PX = 112
_MAX_COUNT = 1 << 40
MAX_ASPECT = 200
"""The largest ratio of an image's long side to its short side. Vision encoders refuse longer images, so such images are
left out."""


class BadObservation(Exception):
    """Raised if the sandbox's answer does not have the form of an observation, which is the result of executing code.

    Model-written code may have sent such an answer.
    """


@dataclass(frozen=True, eq=False)
class Observation:
    """Holds the result of a call (one execution of code): how it ended, what it printed, and which images it showed.

    Attributes:
        status: How the call ended. ``ok`` and ``silent`` (no output) are successes. For any other status, the state
            (the variables of the code) is the same as before the call.
        stdout: The call's output, up to the limit.
        stderr: The call's error output, up to the limit, for example warnings.
        error: The exception with its traceback, or the reason why the call was ended; "" if the call succeeded.
        images: The images that the call showed, in order.
        dropped_chars: The number of characters of stdout and stderr that were left out, because an output was longer
            than its limit. If the limit is N characters, only the first 4 N bytes of an output are decoded as text,
            since a character has at most 4 bytes in UTF-8. Each later byte is counted as one character.
        images_left_out: The number of images that were left out, because there were too many, or because they were too
            long and narrow (ratio of sides above MAX_ASPECT).
        ended_threads: The number of threads that still ran after the call, and were ended.
        ended_processes: The number of processes that still ran after the call, and were ended.
        duration_s: The time from the request to the answer, in seconds.
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
        """Return whether the code ended without an error. If so, the next code begins with its variables."""
        return self.status in ("ok", "silent")

    @property
    def text(self) -> str:
        """Return the text that the policy (the model that wrote the code) gets: output, error and lines in brackets.

        Each line in brackets states one of these facts: the code printed nothing and showed no image; characters of the
        output were left out; images were left out; threads and processes of the code were ended.
        """
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
    """Convert the answer of the processes in the sandbox to an observation (the result of code), and return it.

    The answer is not trusted, because model-written code may have sent it.

    Args:
        header: the header of the answer, such as the status and the sizes of the images.
        parts: the binary parts of the answer: stdout, stderr, and the pixels of each image.
        max_output_chars: the maximum number of characters of each of the two outputs, stdout and stderr; the rest is
            cut off.
        max_pixels: the maximum number of pixels of an image.

    Raises:
        BadObservation: if the answer does not have the right form.
    """
    status, sizes = header.get("status"), header.get("sizes")
    if status not in STATUSES or not isinstance(sizes, list) or len(parts) != len(sizes) + 2:
        raise BadObservation(
            f"the sandbox's answer has an invalid form: status {str(status)[:20]!r}, {len(parts)} parts"
        )
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
    """Return the text with lone surrogates and NUL replaced, since text columns cannot store them."""
    return whole(text).replace("\0", "\ufffd")


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise BadObservation(
            f"a count in the sandbox's answer must be a whole number of at least 0, got {str(value)[:20]!r}"
        )
    return value


def _counts(header: Mapping[str, Any], name: str, number: int) -> list[int]:
    values = header.get(name)
    if not isinstance(values, list) or len(values) != number:
        raise BadObservation(f"the field '{name}' of the sandbox's answer must be a list of {number} counts")
    return [_count(value) for value in values]


def _image_of(size: object, data: bytes, max_pixels: int) -> Pixels:
    """Return the image with the raw RGB pixels ``data``. ``size`` is its height and width, as a list.

    The data is never given to an image decoder, because model-written code made the data. Raises BadObservation if
    ``size`` is invalid or does not fit the data, or if the image has more than ``max_pixels`` pixels.
    """
    if not isinstance(size, list) or len(size) != 2:
        raise BadObservation("the size of an image in the sandbox's answer is not a height and a width")
    height, width = map(_count, size)
    if not 0 < height * width <= max_pixels or len(data) != 3 * height * width:
        raise BadObservation(
            f"an image in the sandbox's answer has a wrong size: {height} × {width} pixels in {len(data)} bytes"
        )
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


def _large_enough(image: Pixels) -> Pixels:
    """Return the image; if it is too small for a vision encoder, return an enlarged copy.

    An image is too small if its shorter side has fewer than ``MIN_SIDE_PX`` pixels. In the copy, this side has
    ``ENLARGED_SIDE_PX`` pixels.
    """
    height, width = image.shape[:2]
    if min(height, width) >= MIN_SIDE_PX:
        return image
    scale = ENLARGED_SIDE_PX / min(height, width)
    size = (round(width * scale), round(height * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_CUBIC), np.uint8)
