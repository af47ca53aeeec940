"""Drawn pictures for the classical engine's tests."""

import cv2
import numpy as np
import pytest

COLOURS = {
    "yellow": (255, 255, 0),
    "blue": (0, 153, 255),
    "black": (0, 0, 0),
    "red": (220, 30, 30),
    "green": (30, 160, 60),
    "purple": (128, 0, 160),
}


class Canvas:
    """A flat picture to draw shapes on; `boxes` lists (label, box) of everything drawn."""

    def __init__(self, width=400, height=100, background=(211, 211, 211), bars=False):
        self.image = np.full((height, width, 3), background, np.uint8)
        if bars:
            self.image[:, 100:150] = self.image[:, 250:300] = (128, 128, 128)
        self.boxes = []

    def add(self, label, x, y, side):
        colour, kind = label.split()
        rgb = COLOURS[colour]
        if kind == "square":
            self.image[y : y + side, x : x + side] = rgb
        elif kind == "circle":
            ys, xs = np.mgrid[0:side, 0:side] - (side - 1) / 2
            self.image[y : y + side, x : x + side][xs**2 + ys**2 <= (side / 2) ** 2] = rgb
        else:
            corners = np.array([[x + side // 2, y], [x + side - 1, y + side - 1], [x, y + side - 1]])
            cv2.fillPoly(self.image, [corners.astype(np.int32)], rgb)
        self.boxes.append((label, (x, y, x + side, y + side)))
        return self

    def tower(self, x, colours, side=20):
        """Blocks from the bottom up with one pixel between them."""
        for level, colour in enumerate(colours):
            self.add(f"{colour} square", x, self.image.shape[0] - (level + 1) * side - level, side)
        return self


@pytest.fixture
def canvas():
    return Canvas


@pytest.fixture
def scattered():
    """Three boxes with nine shapes, some at a wall."""
    drawn = Canvas(bars=True)
    drawn.add("yellow square", 5, 5, 20).add("blue circle", 40, 50, 30).add("black triangle", 75, 10, 20)
    drawn.add("blue square", 150, 70, 30).add("yellow circle", 200, 20, 20).add("black square", 240, 90, 10)
    drawn.add("yellow triangle", 310, 60, 30).add("blue circle", 360, 10, 10).add("black circle", 365, 60, 20)
    return drawn


@pytest.fixture
def towers():
    """Three towers: yellow under blue; black, black, yellow upwards; one blue block."""
    drawn = Canvas(bars=True).tower(40, ["yellow", "blue"]).tower(190, ["black", "black", "yellow"])
    return drawn.tower(340, ["blue"])
