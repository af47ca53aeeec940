"""Crops: what is cut, and that each is written once under its own hash."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft, Trace
from groundtrace.stages.cut_crops import CutCrops, crop
from groundtrace.vision.crops import CropSettings
from groundtrace.vision.media import MediaRoots

BARE = CropSettings(margin=0.0, min_side_px=1)
BOXES = (Box("red square", 8, 30, 28, 50), Box("blue square", 32, 30, 52, 50), Box("red square", 8, 30, 28, 50, 1))


@pytest.fixture
def roots(tmp_path: Path, write_scene: Callable[..., Path]) -> MediaRoots:
    """A data folder with two images, and an empty run folder."""
    write_scene(tmp_path / "data/a.png")
    write_scene(tmp_path / "data/b.png", ("yellow", "blue"))
    return MediaRoots(str(tmp_path / "data"), str(tmp_path / "run"))


@pytest.fixture
def draft(roots: MediaRoots, make_draft: Callable[..., Draft]) -> Draft:
    return make_draft("q", Path(roots.input_root), ("a.png", "b.png"))


def boxed(draft: Draft, *boxes: Box) -> Draft:
    return replace(draft, traces=(Trace(0, "", None, (), boxes),))


@pytest.mark.parametrize(
    ("boxes", "images", "sizes"),
    [
        ((), [], []),
        (BOXES[:1], [0], [(20, 20)]),
        (BOXES, [0, 0, 0, 1], [(20, 20), (20, 20), (44, 20), (20, 20)]),
    ],
)
def test_each_box_and_all_of_an_image_together(
    boxes: tuple[Box, ...], images: list[int], sizes: list[tuple[int, int]], draft: Draft, roots: MediaRoots
) -> None:
    store = roots.store()
    found = crop(boxed(draft, *boxes), store, BARE)
    assert [overlay.media_index for overlay in found.overlays] == images
    assert [store.pixels(overlay.uri).shape[1::-1] for overlay in found.overlays] == sizes
    for overlay in found.overlays:
        data = (Path(roots.run_root) / "media" / f"{overlay.sha256}.png").read_bytes()
        assert hashlib.sha256(data).hexdigest() == overlay.sha256
        assert len(data) == overlay.size_bytes


def test_a_crop_holds_the_pixels_of_its_box(draft: Draft, roots: MediaRoots) -> None:
    store = roots.store()
    (overlay,) = crop(boxed(draft, BOXES[0]), store, BARE).overlays
    assert (store.pixels(overlay.uri) == store.pixels("input:a.png")[30:50, 8:28]).all()


def test_without_a_trace_there_are_no_crops(draft: Draft, roots: MediaRoots) -> None:
    assert crop(draft, roots.store(), BARE).overlays == ()


def test_the_stage(draft: Draft, roots: MediaRoots, check_stage: Callable[..., None]) -> None:
    drafts = [boxed(draft, *BOXES[:2]), replace(draft, question=replace(draft.question, id="r"))]
    kept = [("q", 3), ("r", 0)]
    check_stage(CutCrops(BARE, roots), drafts, kept, [], show=lambda found: (found.id, len(found.overlays)))
