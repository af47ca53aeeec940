"""Overlays: which media get one, what it shows, and that it is written once under its own hash."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import Draft, Overlay
from groundtrace.stages.draw_overlays import DrawOverlays, draw
from groundtrace.vision.media import MediaRoots

POINTS = (Point("red square", 18, 40), Point("blue square", 42, 40, 1), Point("black square", 66, 40))


@pytest.fixture
def roots(tmp_path: Path, write_scene: Callable[..., Path]) -> MediaRoots:
    """A data folder with two pictures, and an empty run folder."""
    write_scene(tmp_path / "data/a.png", width=400, height=100)
    write_scene(tmp_path / "data/b.png", ("yellow", "blue"), width=400, height=100)
    return MediaRoots(str(tmp_path / "data"), str(tmp_path / "run"))


@pytest.fixture
def draft(roots: MediaRoots, make_draft: Callable[..., Draft]) -> Draft:
    return make_draft("q", Path(roots.input_root), ("a.png", "b.png"))


@pytest.mark.parametrize(("points", "drawn_on"), [((), []), (POINTS[:1], [0]), (POINTS[1:2], [1]), (POINTS, [0, 1])])
def test_a_medium_with_points_gets_an_overlay(
    points: tuple[Point, ...], drawn_on: list[int], draft: Draft, roots: MediaRoots
) -> None:
    drawn = draw(replace(draft, points=points), roots.store())
    assert [overlay.media_index for overlay in drawn.overlays] == drawn_on
    assert drawn == replace(draft, points=points, overlays=drawn.overlays)
    media = Path(roots.run_root) / "media"
    assert len(list(media.glob("*"))) == len(drawn_on)
    for overlay in drawn.overlays:
        data = (media / f"{overlay.sha256}.png").read_bytes()
        assert hashlib.sha256(data).hexdigest() == overlay.sha256
        assert overlay.uri == f"run:media/{overlay.sha256}.png"


def test_the_original_stays_and_the_copy_is_a_whole_enlargement(draft: Draft, roots: MediaRoots) -> None:
    before = (Path(roots.input_root) / "a.png").read_bytes()
    store = roots.store()
    (overlay,) = draw(replace(draft, points=POINTS[:1]), store).overlays
    original, copy = store.pixels("input:a.png"), store.pixels(overlay.uri)
    scale = copy.shape[0] // original.shape[0]
    assert copy.shape == (100 * scale, 400 * scale, 3)
    changed = (copy != original.repeat(scale, 0).repeat(scale, 1)).any(axis=2)
    near = changed[20 * scale : 60 * scale, : 38 * scale]
    assert near.sum() > 20, "something is drawn at the point"
    assert (Path(roots.input_root) / "a.png").read_bytes() == before


def test_numbers_count_over_all_media(draft: Draft, roots: MediaRoots) -> None:
    alone = draw(replace(draft, points=(replace(POINTS[2]),)), roots.store()).overlays
    third = draw(replace(draft, points=(POINTS[1], POINTS[1], POINTS[2])), roots.store()).overlays
    assert [overlay.sha256 for overlay in third if overlay.media_index == 0] != [o.sha256 for o in alone]


def test_drawing_again_gives_the_same_bytes(draft: Draft, roots: MediaRoots) -> None:
    pointed = replace(draft, points=POINTS)
    assert draw(pointed, roots.store()) == draw(pointed, roots.store())
    assert len(list((Path(roots.run_root) / "media").iterdir())) == 2, "written once, no temporary file left"


def test_the_stage(check_stage: Callable[..., None], draft: Draft, roots: MediaRoots) -> None:
    pointed = replace(draft, points=POINTS)
    expected: tuple[Overlay, ...] = draw(pointed, roots.store()).overlays
    check_stage(DrawOverlays(roots), [draft, pointed], [(), expected], [], show=lambda element: element.overlays)
