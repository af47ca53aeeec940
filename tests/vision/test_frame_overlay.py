"""One object keeps its number from frame to frame, and every drawn frame says which one it is."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from groundtrace.schemas.geometry import Point
from groundtrace.vision.frame_overlay import draw_on_frames, stable_ids
from groundtrace.vision.frames import Frame
from groundtrace.vision.overlay import MIN_FONT_PX, OverlayPoint, draw_overlay
from groundtrace.vision.samples import Pixels

GOLDEN = Path(__file__).parent / "golden"


def at(x: float, y: float, frame: int | None, label: str = "dog", media_index: int = 0) -> Point:
    return Point(label, x, y, media_index, frame)


def plain(number: int, width: int = 640, height: int = 480, t_s: float = 1.5) -> Frame:
    return Frame(number, t_s, np.full((height, width, 3), 200, np.uint8))


IDS: dict[str, tuple[list[Point], tuple[int, ...]]] = {
    "nothing": ([], ()),
    "one that moves": ([at(10, 10, 1), at(20, 10, 9), at(40, 12, 17)], (1, 1, 1)),
    "two that move and swap places in the list": (
        [at(10, 10, 1), at(90, 10, 1), at(85, 10, 2), at(15, 10, 2)],
        (1, 2, 2, 1),
    ),
    "frames in any order": ([at(15, 10, 2), at(85, 10, 2), at(90, 10, 1), at(10, 10, 1)], (2, 1, 1, 2)),
    "labels apart, even on one spot": ([at(5, 5, 1, "dog"), at(5, 5, 1, "cat"), at(6, 5, 2, "cat")], (1, 2, 2)),
    "case and blanks aside": ([at(5, 5, 1, "red  Dog"), at(6, 5, 2, " red dog")], (1, 1)),
    "media apart": ([at(5, 5, 1), at(5, 5, 2, media_index=1)], (1, 2)),
    "gone and back": ([at(10, 10, 1), at(90, 10, 1), at(88, 10, 2), at(12, 10, 3), at(90, 12, 3)], (1, 2, 2, 1, 2)),
    "a newcomer": ([at(10, 10, 1), at(12, 10, 2), at(90, 90, 2)], (1, 1, 2)),
    "a newcomer that is given first": ([at(10, 10, 1), at(90, 90, 2), at(12, 10, 2)], (1, 2, 1)),
    "the closest pair first": ([at(0, 0, 1), at(10, 0, 1), at(9, 0, 2), at(-50, 0, 2)], (1, 2, 2, 1)),
    "a tie goes to the older, then to the first": ([at(0, 0, 1), at(10, 0, 1), at(5, 0, 2)], (1, 2, 1)),
    "two on one spot": ([at(3, 3, 1), at(3, 3, 1), at(3, 3, 2), at(3, 3, 2)], (1, 2, 1, 2)),
    "no frame": ([at(3, 3, None), at(90, 3, None)], (1, 2)),
}


@pytest.mark.parametrize("name", IDS)
def test_ids(name: str) -> None:
    points, expected = IDS[name]
    assert stable_ids(points) == expected


SOME_POINTS = st.lists(
    st.builds(at, st.floats(0, 100), st.floats(0, 100), st.integers(1, 5), st.sampled_from(["dog", "cat"])), max_size=24
)


@given(SOME_POINTS)
def test_numbers_name_objects(points: list[Point]) -> None:
    ids = stable_ids(points)
    assert sorted(set(ids)) == list(range(1, len(set(ids)) + 1))
    on_frames = [(number, p.frame) for number, p in zip(ids, points, strict=True)]
    assert len(set(on_frames)) == len(points)
    labels = {(number, p.label) for number, p in zip(ids, points, strict=True)}
    assert len(labels) == len(set(ids))
    for label in ("dog", "cat"):
        per_frame = [sum(p.label == label and p.frame == frame for p in points) for frame in range(1, 6)]
        assert sum(one == label for _, one in labels) == max(per_frame)
    assert ids == stable_ids(points)


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_without_ties_the_order_given_changes_names_only(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)  # whose coordinates are never at equal distances
    points = [at(*rng.random(2).tolist(), frame=int(rng.integers(1, 5))) for _ in range(count)]
    shuffled = [points[index] for index in rng.permutation(count)]
    groups = []
    for given_so in (points, shuffled):
        ids = stable_ids(given_so)
        objects = [frozenset(p for p, n in zip(given_so, ids, strict=True) if n == number) for number in set(ids)]
        groups.append(set(objects))
    assert groups[0] == groups[1]


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_objects_further_apart_than_they_move_are_followed(objects: int, frames: int, data: st.DataObject) -> None:
    # They stand 100 apart and move by less than 50 in all, so the nearest is always the same one.
    shift = st.floats(-24, 24)
    points, truth = [], []
    for frame in range(1, frames + 1):
        for number in data.draw(st.permutations(range(objects))):
            points.append(at(100 * number + data.draw(shift), 0, frame))
            truth.append(number)
    ids = stable_ids(points)
    assert len(set(zip(ids, truth, strict=True))) == objects


def scene() -> list[Frame]:
    """Three frames of a ball that rolls to the right below a lamp."""
    frames = []
    for k in range(3):
        canvas = np.full((60, 200, 3), 211, np.uint8)
        cv2.circle(canvas, (30 + 60 * k, 44), 10, (0, 110, 0), cv2.FILLED)
        cv2.rectangle(canvas, (90, 4), (109, 15), (255, 215, 0), cv2.FILLED)
        frames.append(Frame(1 + 8 * k, 0.267 * k, canvas))
    return frames


def drawn_scene() -> Pixels:
    ball = [Point("ball", 30 + 60 * k, 44, 0, 1 + 8 * k, 0.267 * k) for k in range(2)]
    points = [Point("lamp", 100, 10, 0, 1, 0.0), *ball]
    return np.vstack(draw_on_frames(scene(), points, stable_ids(points)))


def test_golden() -> None:
    drawn = drawn_scene()
    expected = np.asarray(Image.open(GOLDEN / "frames.png").convert("RGB"))
    assert drawn.shape == expected.shape
    # Other releases of FreeType and OpenCV shade edges a little differently.
    differing = np.abs(drawn.astype(int) - expected).max(2) > 48
    assert differing.mean() < 0.01


def caption_of(drawn: Pixels, without: Pixels) -> tuple[int, int, int, int]:
    """The rectangle x1, y1, x2, y2 in which a picture differs from one without caption."""
    rows, columns = np.nonzero((drawn != without).any(2))
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


@pytest.mark.parametrize("size", [(1, 1), (5, 5), (9, 300), (1800, 7), (64, 48), (317, 211), (1280, 720), (3840, 2160)])
def test_the_caption_is_legible_at_any_size_and_in_a_corner(size: tuple[int, int]) -> None:
    (drawn,) = draw_on_frames([plain(123, *size, t_s=1234.567)], [], [])
    scale = drawn.shape[0] // size[1]
    assert drawn.shape == (size[1] * scale, size[0] * scale, 3)
    x1, y1, x2, y2 = caption_of(drawn, np.full_like(drawn, 200))
    assert (x1, y1) == (0, 0)
    assert y2 - y1 >= MIN_FONT_PX
    assert x2 - x1 >= 6 * (y2 - y1)
    assert x2 <= drawn.shape[1]
    white = (drawn[y1:y2, x1:x2] > 230).all(2)
    assert 0.05 < white.mean() < 0.4


def test_the_caption_says_frame_and_time() -> None:
    pictures = [draw_on_frames([plain(n, t_s=t)], [], [])[0] for n, t in ((1, 0.0), (2, 0.0), (1, 0.5), (1, 0.0))]
    assert np.array_equal(pictures[0], pictures[3])
    assert not np.array_equal(pictures[0], pictures[1])
    assert not np.array_equal(pictures[0], pictures[2])


CORNERS = [(3.0, 3.0), (637.0, 3.0), (3.0, 477.0), (637.0, 477.0)]


@pytest.mark.parametrize("taken", [[0], [0, 1], [0, 2], [1, 3], [0, 1, 2], [0, 1, 2, 3]])
def test_the_caption_leaves_points_and_their_captions_alone(taken: list[int]) -> None:
    points = [at(*CORNERS[index], frame=4) for index in taken]
    ids = stable_ids(points)
    marked = draw_overlay(
        plain(4).pixels, [OverlayPoint(n, p.label, p.x, p.y) for n, p in zip(ids, points, strict=True)]
    )
    (drawn,) = draw_on_frames([plain(4)], points, ids)
    x1, y1, x2, y2 = caption_of(drawn, marked)
    assert (marked[y1:y2, x1:x2] == 200).all()
    for x, y in (CORNERS[index] for index in taken):
        assert not (x1 - 8 <= x <= x2 + 8 and y1 - 8 <= y <= y2 + 8)


def test_points_are_drawn_on_their_own_frame_only() -> None:
    frames = [plain(1), plain(5), plain(9)]
    points = [at(300, 200, 5)]
    drawn = draw_on_frames(frames, points, [7])
    alone = [draw_on_frames([frame], [], [])[0] for frame in frames]
    assert np.array_equal(drawn[0], alone[0])
    assert np.array_equal(drawn[2], alone[2])
    marked = draw_overlay(frames[1].pixels, [OverlayPoint(7, "dog", 300, 200)])
    assert np.array_equal(drawn[1][100:, :], marked[100:, :])


def test_small_frames_without_points_are_enlarged_like_the_others() -> None:
    frames = [plain(1, 40, 30), plain(2, 40, 30)]
    first, second = draw_on_frames(frames, [at(3, 4, 1)], [1])
    assert first.shape == second.shape
    assert first.shape[0] > 30


def test_frames_are_left_alone_even_if_read_only() -> None:
    frame = plain(1)
    frame.pixels.flags.writeable = False
    draw_on_frames([frame], [at(3, 4, 1)], [1])
    draw_on_frames([frame], [], [])
    assert (frame.pixels == 200).all()


def test_what_cannot_be_drawn_raises() -> None:
    with pytest.raises(ValueError, match="frame 2, which is not"):
        draw_on_frames([plain(1)], [at(3, 4, 2)], [1])
    with pytest.raises(ValueError, match="frame None"):
        draw_on_frames([plain(1)], [at(3, 4, None)], [1])
    with pytest.raises(ValueError, match="shorter"):
        draw_on_frames([plain(1)], [at(3, 4, 1)], [])
    assert draw_on_frames([], [], []) == []
