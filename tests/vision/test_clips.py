"""A clip becomes a reference whose frames stand in the run folder, each with its number and time."""

import numpy as np
import pytest

from groundtrace.schemas.ordering import thinned
from groundtrace.schemas.records import FrameRef, MediaRef
from groundtrace.vision.checked_medium import check_medium
from groundtrace.vision.clips import VideoSettings
from groundtrace.vision.decode import Limits
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.media import MediaStore

from ..vision.clips import ClipSpec, number_of, write_clip


@pytest.fixture
def clip(tmp_path):
    """The reference of a clip of 40 frames, 10 a second, and the store it was read through."""

    def checked(max_frames: int = 32, **changes) -> tuple[MediaRef, MediaStore]:
        (tmp_path / "clip.mp4").write_bytes(write_clip(ClipSpec(ticks=tuple(range(40)), **changes)))
        store = MediaStore(str(tmp_path), str(tmp_path / "run"))
        found = check_medium("input:clip.mp4", store, VideoSettings(max_frames))
        assert found.ref is not None, found.detail
        return found.ref, store

    return checked


def test_a_clip_is_its_frames(clip) -> None:
    ref, store = clip(max_frames=5)
    assert (ref.kind, ref.width, ref.height) == ("video", 64, 48)
    assert [frame.number for frame in ref.frames] == [1, 2, 3, 4, 5]
    assert ref.frames[0].t_s == 0
    assert ref.frames[-1].t_s == pytest.approx(3.9)
    for frame in ref.frames:
        data = store.open_bytes(frame.uri)
        assert (sha256_bytes(data), len(data)) == (frame.sha256, frame.size_bytes)
        assert number_of(store.pixels(frame.uri)) == round(10 * frame.t_s) + 1


def test_at_most_32_frames_and_the_same_ones_again(clip) -> None:
    first, store = clip()
    assert len(first.frames) == 32
    assert check_medium("input:clip.mp4", store, VideoSettings()).ref == first


def test_other_frames_are_another_medium(clip) -> None:
    """Two files are the same medium where they show the same frames."""
    assert clip(max_frames=4)[0].pixel_sha256 != clip(max_frames=5)[0].pixel_sha256


@pytest.mark.parametrize(
    ("frames", "count", "expected"),
    [(1, 8, [1]), (8, 8, list(range(1, 9))), (32, 1, [17]), (32, 2, [1, 32]), (5, 3, [1, 3, 5]), (9, 4, [1, 4, 6, 9])],
)
def test_the_pointer_looks_at_frames_evenly_spread(frames: int, count: int, expected: list[int]) -> None:
    refs = tuple(FrameRef(number, number / 10, "run:x", "0" * 64, 1) for number in range(1, frames + 1))
    assert [frame.number for frame in thinned(refs, count)] == expected


@pytest.mark.parametrize("frames", [0, 33])
def test_settings_out_of_range(frames: int) -> None:
    with pytest.raises(ValueError, match="max_frames"):
        VideoSettings(frames)


def test_what_a_reader_gets_is_writable_by_nobody(clip) -> None:
    ref, store = clip(max_frames=1)
    assert not store.pixels(ref.frames[0].uri).flags.writeable
    assert store.pixels(ref.frames[0].uri).dtype == np.uint8


def test_a_clip_has_a_limit_of_its_own(tmp_path, monkeypatch):
    """A clip may be larger than any image."""
    (tmp_path / "clip.mkv").write_bytes(write_clip(ClipSpec()))
    store = MediaStore(str(tmp_path), str(tmp_path / "run"), limits=Limits(max_bytes=100))
    assert check_medium("input:clip.mkv", store, VideoSettings()).ref is not None
    monkeypatch.setattr("groundtrace.vision.checked_medium.MAX_CLIP_BYTES", 99)
    found = check_medium("input:clip.mkv", store, VideoSettings())
    assert (found.reason, "the limit is 99" in found.detail) == ("undecodable_media", True)
