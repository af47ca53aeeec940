"""Rewriting the tags of a response between original pixels, in which shards hold them, and a model's own frame.

Tags do not say which picture they are on. Deviation: all are read as being on the first one; the frames of a clip have
one size, so only rows with several images of different sizes are touched by this.
"""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.frames import QWEN25_IMAGE, Frame, OutOfFrame, ResizeRule, box_from_px, box_to_px, from_px, to_px
from schemas.response import parse_boxes, parse_points
from schemas.tags import format_box_tag, format_points_tag, scan_tags

Pair = tuple[float, float]
Corners = tuple[float, float, float, float]


@dataclass(frozen=True)
class Speech:
    """How a model writes coordinates: its frame, how many decimals (0 or 1), and how its processor sizes pictures."""

    frame: Frame
    decimals: int = 0
    rule: ResizeRule = QWEN25_IMAGE

    def to_model(self, text: str, width: int, height: int) -> str:
        """A text in original pixels of a ``width`` x ``height`` picture as the model would write it.

        Raises OutOfFrame for a position outside the picture.
        """
        size = (width, height)

        def pair(at: Pair) -> Pair:
            x, y = from_px(self.frame, *at, *size, self.rule)
            return round(x, self.decimals), round(y, self.decimals)

        def corners(box: Corners) -> Corners:
            a, b, c, d = (round(v, self.decimals) for v in box_from_px(self.frame, box, *size, self.rule))
            return a, b, c, d

        return _rewrite(text, pair, corners)

    def to_pixels(self, text: str, width: int, height: int) -> str:
        """The reverse: what the model wrote, in original pixels. A tag with a position outside its frame is no point or
        box of the picture and is broken up, so that no scorer takes it for one.
        """
        size = (width, height)
        return _rewrite(
            text,
            lambda at: to_px(self.frame, *at, *size, self.rule),
            lambda box: box_to_px(self.frame, box, *size, self.rule),
            is_lenient=True,
        )


def _rewrite(
    text: str, pair: Callable[[Pair], Pair], corners: Callable[[Corners], Corners], is_lenient: bool = False
) -> str:
    """The text with the positions of its point and box tags replaced, everything else as it is."""
    pieces: list[str] = []
    done = 0
    for tag in scan_tags(text):
        written = text[tag.start : tag.end]
        points, boxes = parse_points(written), parse_boxes(written)
        try:
            if points:
                new = format_points_tag(tag.label, [pair((point.x, point.y)) for point in points])
            elif boxes:
                box = boxes[0]
                new = format_box_tag(box.label, corners((box.x1, box.y1, box.x2, box.y2)))
            else:
                continue
        except OutOfFrame:
            if not is_lenient:
                raise
            new = written.replace("<", "‹")
        pieces += [text[done : tag.start], new]
        done = tag.end
    return "".join(pieces) + text[done:]
