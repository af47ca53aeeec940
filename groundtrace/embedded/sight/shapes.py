"""Defines the objects that the embedded engine finds: shapes of one flat colour, in pixels of the upright image."""

from dataclasses import dataclass

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class FoundShape:
    """Holds one object found in an image: its colour, its kind, its box and a point on it.

    `colour` and `kind` are names of `labels.COLOURS` and `labels.KINDS`. `box_px` is (x1, y1, x2, y2) with exclusive
    right and bottom sides: a square of 20 pixels that starts at 0 is (0, 0, 20, 20). `point_px` is the centre of one of
    the object's own pixels, even if the centre of the box is a hole. `area_px` is the number of the object's pixels.
    """

    colour: str
    kind: str
    box_px: Box
    point_px: tuple[float, float]
    area_px: float

    @property
    def label(self) -> str:
        """Return the class of the object, such as "yellow square", in the form that pointer and detector models use."""
        return f"{self.colour} {self.kind}"

    @property
    def width_px(self) -> float:
        """Return the width of the box in pixels."""
        return self.box_px[2] - self.box_px[0]

    @property
    def height_px(self) -> float:
        """Return the height of the box in pixels."""
        return self.box_px[3] - self.box_px[1]

    def scaled(self, factor: float) -> "FoundShape":
        """Return the same object in a copy of the image whose sides are `factor` times as long."""
        x1, y1, x2, y2 = (value * factor for value in self.box_px)
        point_px = (self.point_px[0] * factor, self.point_px[1] * factor)
        return FoundShape(self.colour, self.kind, (x1, y1, x2, y2), point_px, self.area_px * factor * factor)
