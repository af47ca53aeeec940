"""From a reply's own coordinates to original pixels: the edge of an endpoint, passed once."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.frames import Frame, OutOfFrame, box_to_px, to_px
from schemas.geometry import Box, Point
from schemas.pointing import NoPoints, UnparsablePointing, parse_pointer_reply
from schemas.records import MediaRef


class BadReply(ValueError):
    """A reply that does not have the form that was asked for."""


@dataclass(frozen=True)
class Mask:
    """A boolean mask over the pixel rectangle that starts at ``x, y``; everything outside is False."""

    x: int
    y: int
    pixels: np.ndarray

    def holds(self, x_px: float, y_px: float) -> bool:
        """Whether the pixel under the position is in the mask (Argos Eq. 2)."""
        column, row = int(x_px) - self.x, int(y_px) - self.y
        height, width = self.pixels.shape
        return 0 <= column < width and 0 <= row < height and bool(self.pixels[row, column])


def points_of_reply(text: str, entity: str, frame: Frame, medium: MediaRef, media_index: int) -> tuple[Point, ...]:
    """The pointer's points for one entity, labelled with it, in pixels; empty when it says that there are none.

    Raises :class:`BadReply` when the text is neither, or a point lies outside its frame.
    """
    try:
        raw = parse_pointer_reply(text)
        if isinstance(raw, NoPoints):
            return ()
        pixels = [to_px(frame, point.x, point.y, medium.width, medium.height) for point in raw]
    except (UnparsablePointing, OutOfFrame) as error:
        raise BadReply(str(error)) from error
    return tuple(Point(entity, x, y, media_index) for x, y in pixels)


def boxes_of_reply(text: str, label: str, frame: Frame, medium: MediaRef, media_index: int) -> tuple[Box, ...]:
    """The detector's boxes for one label, in pixels. Raises :class:`BadReply` as :func:`points_of_reply` does."""
    try:
        rows: Any = json_object(text)["boxes"]
        boxes = [box_to_px(frame, tuple(float(v) for v in row), medium.width, medium.height) for row in rows]  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        raise BadReply(f"not a list of boxes: {error}") from error
    return tuple(Box(label, *box, media_index=media_index) for box in boxes)


def masks_of_reply(text: str, count: int) -> tuple[Mask, ...]:
    """The segmenter's masks, one per box asked for. Raises :class:`BadReply` when they don't fit their sizes."""
    try:
        masks = tuple(_mask(fields) for fields in json_object(text)["masks"])  # type: ignore[attr-defined]
    except (KeyError, TypeError, ValueError) as error:
        raise BadReply(f"not a list of masks: {error}") from error
    if len(masks) != count:
        raise BadReply(f"{len(masks)} masks for {count} boxes")
    return masks


def encode_mask(x: int, y: int, pixels: np.ndarray) -> dict[str, object]:
    """A mask as the JSON fields of ``segment``: run lengths row by row, starting with the background."""
    flat = pixels.astype(bool).ravel()
    changes = np.flatnonzero(np.diff(flat.astype(np.int8))) + 1
    edges = np.concatenate([[0], changes, [flat.size]])
    counts = np.diff(edges).tolist()
    if flat.size and flat[0]:
        counts.insert(0, 0)
    height, width = pixels.shape
    return {"x": x, "y": y, "width": width, "height": height, "counts": counts}


def _mask(fields: dict[str, object]) -> Mask:
    x, y, width, height = (int(fields[name]) for name in ("x", "y", "width", "height"))  # type: ignore[call-overload]
    counts = np.array(fields["counts"], dtype=np.int64)
    if width < 0 or height < 0 or (counts < 0).any() or counts.sum() != width * height:
        raise ValueError(f"run lengths do not fill {width}x{height}")
    values = np.arange(counts.size) % 2 == 1
    return Mask(x, y, np.repeat(values, counts).reshape(height, width))


def json_object(text: str) -> dict[str, object]:
    """The JSON object of a reply, out of a code fence if it stands in one. Raises :class:`BadReply`."""
    start, end = text.find("{"), text.rfind("}")
    try:
        fields = json.loads(text[start : end + 1])
    except (ValueError, RecursionError) as error:
        raise BadReply(f"not JSON: {text[:80]!r}") from error
    if not isinstance(fields, dict):
        raise BadReply(f"not a JSON object: {text[:80]!r}")
    return fields
