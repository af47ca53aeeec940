"""Defines points and boxes in pixels of the original image. The stages (steps) of a pipeline pass positions to each
other only in this form.

Coordinates are float pixels of the upright original image (or video frame) with the origin at the top left. Boxes are
``x1, y1, x2, y2`` with ``x1 <= x2`` and ``y1 <= y2``. A model may use other coordinates. In this case,
:mod:`groundtrace.schemas.coordinates` converts the coordinates in the requests to the model and in its replies.
"""

from groundtrace.schemas.coding import record


@record
class Point:
    """Holds a labelled position ``(x, y)`` in pixels of the upright original image. ``label`` is the name of the
    object.

    ``media_index`` is the index of the image or video among the question's media, from 0. For a video, ``frame`` is the
    number of the frame (from 1), and ``t_s`` is its time in seconds. Both are None for an image.
    """

    label: str
    x: float
    y: float
    media_index: int = 0
    frame: int | None = None
    t_s: float | None = None


@record
class Box:
    """Holds a labelled rectangle in pixels of the upright original image. Its sides are parallel to the image's sides.
    ``label`` is the name of the object. ``(x1, y1)`` is the upper left corner and ``(x2, y2)`` the lower right one.
    ``media_index`` is the index of the image among the question's media, from 0.
    """

    label: str
    x1: float
    y1: float
    x2: float
    y2: float
    media_index: int = 0

    @property
    def width(self) -> float:
        """Return the width in pixels."""
        return self.x2 - self.x1

    @property
    def height(self) -> float:
        """Return the height in pixels."""
        return self.y2 - self.y1

    @property
    def centre(self) -> tuple[float, float]:
        """Return the middle of the box as ``(x, y)`` in pixels."""
        return (self.x1 + self.x2) / 2, (self.y1 + self.y2) / 2

    def iou(self, other: "Box") -> float:
        """Return the intersection over union of this box and ``other``, in [0, 1]. The result is 0 if the boxes do not
        overlap or are on different media.
        """
        width = min(self.x2, other.x2) - max(self.x1, other.x1)
        height = min(self.y2, other.y2) - max(self.y1, other.y1)
        if self.media_index != other.media_index or width <= 0 or height <= 0:
            return 0.0
        shared = width * height
        return shared / (self.width * self.height + other.width * other.height - shared)
