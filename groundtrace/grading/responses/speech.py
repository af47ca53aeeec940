"""Converts the coordinates in point and box tags between original pixels and a model's coordinate frame.

The coordinate frame is the scale in which a model writes coordinates, such as 0 to 1000. Training data is in original
pixels.

A tag does not contain the number of its image. If a question has several images, the image of a tag is found from the
words around the tag (:mod:`groundtrace.grading.responses.image_mentions`). For a video clip, this search is not needed,
because all images of a clip have the same size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from groundtrace.grading.responses.image_mentions import images_of_tags
from groundtrace.grading.responses.response import has_unread_parts, parse_boxes, parse_points
from groundtrace.grading.responses.tags import Tag, format_box_tag, format_points_tag, scan_tags
from groundtrace.schemas.coordinates import (
    QWEN25_IMAGE,
    CoordinateFrame,
    OutOfFrame,
    Resize,
    box_from_px,
    box_to_px,
    from_px,
    outside_frame,
    to_px,
)
from groundtrace.schemas.text import counted

Size = tuple[int, int]
Pair = tuple[float, float]
Corners = tuple[float, float, float, float]


@dataclass(frozen=True)
class Speech:
    """Describes how a model writes coordinates, and converts the point and box tags of a text to and from this form.

    ``frame`` is the model's coordinate frame (such as 0 to 1000). ``decimals`` is the number of decimals that the model
    writes (0 or 1). ``rule`` is the rule by which the model's processor resizes images.
    """

    frame: CoordinateFrame
    decimals: int = 0
    rule: Resize = QWEN25_IMAGE

    def to_model(self, text: str, sizes: Sequence[Size]) -> str:
        """Return the text with its point and box tags converted from original pixels to the model's coordinate frame.

        ``sizes`` are the (width, height) of each still image, or of the frames of a clip, in pixels. Raises OutOfFrame
        for a position outside its image or in an image that does not exist, and for a tag with a point that cannot be
        read.
        """

        def pair(at: Pair, size: Size) -> Pair:
            x, y = from_px(self.frame, *at, *size, self.rule)
            return round(x, self.decimals), round(y, self.decimals)

        def corners(box: Corners, size: Size) -> Corners:
            a, b, c, d = (round(v, self.decimals) for v in box_from_px(self.frame, box, *size, self.rule))
            return a, b, c, d

        return _rewrite(text, sizes, pair, corners)

    def frame_fault(self, text: str, sizes: Sequence[Size]) -> str:
        """Return why :meth:`to_pixels` cannot convert a tag of the text, such as ``x = 163 is outside 0 to 100, the
        range of the frame molmo100``; "" if it converts all tags.

        If it cannot convert several tags, the result is about the first of them.
        """

        def pair(at: Pair, size: Size) -> Pair:
            if fault := outside_frame(self.frame, *at, *size, self.rule):
                raise OutOfFrame(fault)
            return at

        def corners(box: Corners, size: Size) -> Corners:
            pair(box[:2], size)
            pair(box[2:], size)
            return box

        try:
            _rewrite(text, sizes, pair, corners)
        except OutOfFrame as error:
            return str(error)
        return ""

    def to_pixels(self, text: str, sizes: Sequence[Size]) -> str:
        """Return the text with its point and box tags converted from the model's coordinate frame to original pixels.

        ``sizes`` are the (width, height) of each still image, or of the frames of a clip, in pixels. If a tag cannot be
        converted, each ``<`` in it becomes ``‹``. So no scorer reads the tag as a point or box, and the check of the
        response's form reports the tag as a fault. Three kinds of tags cannot be converted:

        - a tag with a position outside the coordinate frame;
        - a tag on an image that does not exist;
        - a tag that can be read only in part, such as a tag with ``x1``, ``y1`` and ``x2``, but without ``y2``.
        """
        return _rewrite(
            text,
            sizes,
            lambda at, size: to_px(self.frame, *at, *size, self.rule),
            lambda box, size: box_to_px(self.frame, box, *size, self.rule),
            is_lenient=True,
        )


def _rewrite(
    text: str,
    sizes: Sequence[Size],
    pair: Callable[[Pair, Size], Pair],
    corners: Callable[[Corners, Size], Corners],
    is_lenient: bool = False,
) -> str:
    """Return the text with the positions of its point and box tags converted; everything else is unchanged.

    The function ``pair`` converts the position of a point, and the function ``corners`` converts the corners of a box.
    ``sizes`` are the sizes of the images. Raises OutOfFrame if a tag cannot be converted. If ``is_lenient`` is True,
    each ``<`` of such a tag becomes ``‹`` instead.
    """
    pieces: list[str] = []
    done = 0
    tags = scan_tags(text)
    places = images_of_tags(text, tags) if len(sizes) > 1 else [0] * len(tags)
    for tag, place in zip(tags, places, strict=True):
        written = text[tag.start : tag.end]
        points, boxes = parse_points(written), parse_boxes(written)
        try:
            size = _size_of(sizes, place)
            if not points and not boxes:
                continue
            _check_whole(tag)
            if points:
                positions = [pair((point.x, point.y), size) for point in points]
                new = format_points_tag(tag.label, positions, tag.is_open, tag.inner)
            else:
                box = boxes[0]
                new = format_box_tag(box.label, corners((box.x1, box.y1, box.x2, box.y2), size))
        except OutOfFrame:
            if not is_lenient:
                raise
            new = written.replace("<", "‹")
        pieces += [text[done : tag.start], new]
        done = tag.end
    return "".join(pieces) + text[done:]


def _check_whole(tag: Tag) -> None:
    """Raise OutOfFrame (the error for tags that cannot be converted) if a part of the tag cannot be read.

    An example is a tag with ``x2`` but without ``y2``.
    """
    if has_unread_parts(tag):
        raise OutOfFrame(f"the tag with the label {tag.label[:60]!r} has a part that cannot be read: correct this tag")


def _size_of(sizes: Sequence[Size], place: int) -> Size:
    if place >= len(sizes):
        raise OutOfFrame(f"a tag names image {place + 1}, but the question has only {counted(len(sizes), 'image')}")
    return sizes[place]
