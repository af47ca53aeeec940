"""Draws overlays (Argos §4.1): copies of images on which points are drawn with numbers, labels and coordinates.

The inputs are drafts (questions with their data) that have points. The outputs are drafts with one overlay for each
image or frame that has points. A thing has the same number on all frames of a clip, and a caption names the frame. Each
overlay is written once to the run folder, in a file that is named by its hash. Between stages only the reference to
this file is passed on. Originals are not changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import Draft, MediaRef, Overlay
from groundtrace.stages.plumbing.stage import DraftStage, Stage, Work
from groundtrace.vision.clips import encode_frame
from groundtrace.vision.frame_overlay import draw_on_frames, stable_ids
from groundtrace.vision.frames import Frame
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaRoots, MediaStore
from groundtrace.vision.overlay import OverlayPoint, draw_overlay, encode_png
from groundtrace.vision.samples import Pixels


def mark_numbers(points: Sequence[Point]) -> tuple[int, ...]:
    """Return the number to draw beside each of the points.

    On images, the number is the point's position in ``points``, from 1. On the frames of a clip, all points of one
    object have the same number (:func:`groundtrace.vision.frame_overlay.stable_ids`).
    """
    if all(point.frame is None for point in points):
        return tuple(range(1, len(points) + 1))
    return stable_ids(points)


def draw(draft: Draft, store: MediaStore) -> Draft:
    """Draw the points of a draft (a question with its data) on copies of its images and frames, and return the draft
    with references to these copies.

    ``store`` is the media store, to which the drawn copies (overlays) are written.
    """
    overlays: list[Overlay] = []
    numbers = mark_numbers(draft.points)
    for index, medium in enumerate(draft.question.media):
        marked = [(n, point) for n, point in zip(numbers, draft.points, strict=True) if point.media_index == index]
        if not marked:
            continue
        if medium.frames:
            overlays += _drawn_frames(index, medium, marked, store)
        else:
            marks = [OverlayPoint(number, point.label, point.x, point.y) for number, point in marked]
            overlays.append(_filed(index, draw_overlay(store.pixels(medium.uri), marks), None, store))
    return replace(draft, overlays=tuple(overlays))


def _drawn_frames(
    index: int, medium: MediaRef, marked: Sequence[tuple[int, Point]], store: MediaStore
) -> Iterator[Overlay]:
    shown = {point.frame for _, point in marked}
    frames = [Frame(ref.number, ref.t_s, store.pixels(ref.uri)) for ref in medium.frames if ref.number in shown]
    drawn = draw_on_frames(frames, [point for _, point in marked], [number for number, _ in marked])
    for frame, pixels in zip(frames, drawn, strict=True):
        yield _filed(index, pixels, frame.number, store)


def _filed(index: int, pixels: Pixels, frame: int | None, store: MediaStore) -> Overlay:
    """Write an overlay (an image or frame with points drawn on it) to ``store``, and return a reference to it.

    ``index`` is the index of the original image or clip among the question's media, and ``pixels`` is the overlay.
    ``frame`` is the number of the clip's frame; None for an image. An image is stored as PNG. A frame is stored as
    JPEG, because JPEG files are smaller than PNG files, and a clip has many frames.
    """
    data, ext = (encode_png(pixels), "png") if frame is None else (encode_frame(pixels), "jpg")
    return Overlay(index, store.write_drawn(data, ext), sha256_bytes(data), len(data), frame)


STAGE = Stage("overlay", "the points are drawn on the image, numbered and with coordinates")


@dataclass
class DrawOverlays(DraftStage):
    """Stage (pipeline step) that draws the points of every draft (a question with its data) on copies of its images and
    frames.

    ``roots`` holds the data folder and the run folder.
    """

    roots: MediaRoots
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function draws the draft's points on
        copies of its images and frames (:func:`draw`).
        """
        return partial(draw, store=self.roots.store())
