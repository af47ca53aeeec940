"""Frames of clips: the right pictures at the containers' own times, whatever the container, or a typed refusal."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import molmo_utils
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.vision.decode import UndecodableMedia
from groundtrace.vision.frames import Clip, VideoLimits, probe, sample_frames

from . import clips
from .clips import B_FRAMES, CONTAINERS, ClipSpec, write_clip


def numbers(clip: Clip) -> list[int]:
    return [frame.number for frame in clip.frames]


def times(clip: Clip) -> list[float]:
    return [frame.t_s for frame in clip.frames]


def assert_true(clip: Clip, spec: ClipSpec, exact: bool = True) -> None:
    """Every frame says its own number, stands upright, and has its own time (Matroska's are in milliseconds)."""
    assert [clips.number_of(frame.pixels) for frame in clip.frames] == numbers(clip)
    assert spec.pix_fmt == "gray" or all(clips.is_upright(frame.pixels) for frame in clip.frames)
    expected = [float((spec.ticks[n - 1] - spec.ticks[0]) * spec.time_base) for n in numbers(clip)]
    assert times(clip) == (expected if exact else pytest.approx(expected, abs=0.0011))
    assert {frame.pixels.shape for frame in clip.frames} == {(clip.height, clip.width, 3)}
    assert (clip.width, clip.height) == (spec.width, spec.height)


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_right_pictures_at_their_times(name: str) -> None:
    spec = CONTAINERS[name]
    data = write_clip(spec)
    clip = sample_frames(data)
    assert numbers(clip) == list(range(1, 11))
    assert_true(clip, spec)
    assert clip.duration_s == pytest.approx(float(10 * spec.time_base))
    assert clip.fps == pytest.approx(float(1 / spec.time_base))
    assert probe(data) == (clip.width, clip.height, clip.duration_s)
    assert all(frame.pixels.dtype == np.uint8 and frame.pixels.flags.c_contiguous for frame in clip.frames)


@pytest.mark.parametrize("kind", ["mp4", "avi", "matroska"])
def test_molmo_chooses_evenly_from_first_to_last(kind: str) -> None:
    spec = ClipSpec(kind, ticks=range(200), time_base=Fraction(1001, 30000), options=B_FRAMES)
    clip = sample_frames(write_clip(spec), 32)
    assert numbers(clip) == [min(k * 200 // 31, 199) + 1 for k in range(32)]
    assert_true(clip, spec, exact=kind != "matroska")
    assert clip.fps == pytest.approx(30000 / 1001, rel=1e-3)


def test_reading_a_clip_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Not even molmo-utils' line on its default reader, which it prints once in a process."""
    molmo_utils.vision_process.get_default_video_reader_backend = fresh = lambda: print("using decord")
    sample_frames(write_clip(ClipSpec("mp4", ticks=range(40))), 4)
    assert molmo_utils.vision_process.get_default_video_reader_backend is not fresh
    assert capfd.readouterr() == ("", "")


def test_molmo_frames_of_an_avi_are_all_the_same_one(tmp_path: Path) -> None:
    path = tmp_path / "clip.avi"
    path.write_bytes(write_clip(ClipSpec("avi", ticks=range(40))))
    frames, found = molmo_utils.fetch_video({"video": str(path), "num_frames": 4, "max_fps": None, "backend": "decord"})
    assert found["duration"] == 0
    assert len({clips.number_of(frame) for frame in frames}) == 1
    assert numbers(sample_frames(path, 4)) == [1, 14, 27, 40]


@pytest.mark.parametrize(
    ("frames", "wanted", "expected"),
    [
        (1, 32, [1]),
        (2, 32, [1, 2]),
        (2, 2, [1, 2]),
        (32, 32, list(range(1, 33))),
        (33, 32, [k * 33 // 31 + 1 for k in range(31)] + [33]),
        (62, 32, [*range(1, 62, 2), 62]),
        (100, 1, [1]),
        (100, 2, [1, 100]),
        (100, 3, [1, 51, 100]),
    ],
)
def test_how_many_frames(frames: int, wanted: int, expected: list[int]) -> None:
    clip = sample_frames(write_clip(ClipSpec(ticks=range(frames))), wanted)
    assert numbers(clip) == expected
    assert clip.duration_s == pytest.approx(frames / 10)


@pytest.mark.parametrize("kind", ["mp4", "matroska", "mov"])
def test_variable_frame_rate_keeps_the_containers_times(kind: str) -> None:
    ticks = [0, 10, 11, 50, 200, 201, 260, 300]
    spec = ClipSpec(kind, ticks=ticks, time_base=Fraction(1, 100), options=B_FRAMES)
    clip = sample_frames(write_clip(spec), 4)
    # At 0, 1.003, 2.007 and 3.01 s; by the mean rate of 2.66 Hz these would be the frames 1, 3, 6 and 8.
    assert numbers(clip) == [1, 4, 5, 8]
    assert_true(clip, spec)
    assert probe(write_clip(spec))[2] == clip.duration_s


@pytest.mark.parametrize("kind", ["mp4", "matroska", "mpegts"])
def test_times_count_from_the_first_frame_wherever_the_clip_starts(kind: str) -> None:
    spec = ClipSpec(kind, ticks=range(125, 150), time_base=Fraction(1, 25), options=B_FRAMES)
    data = write_clip(spec)
    with av.open(io.BytesIO(data)) as container:
        assert container.streams.video[0].start_time
    clip = sample_frames(data, 5)
    assert numbers(clip) == [1, 7, 13, 19, 25]
    assert_true(clip, spec)
    assert clip.duration_s == pytest.approx(1.0)


def test_an_edit_list_cuts_the_frames_that_no_player_shows() -> None:
    clip = sample_frames(clips.write_edited(first=5, count=10))
    assert [clips.number_of(frame.pixels) for frame in clip.frames] == list(range(6, 16))
    assert numbers(clip) == list(range(1, 11))
    assert times(clip) == pytest.approx([k / 10 for k in range(10)])
    assert clip.duration_s == pytest.approx(1.0)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True)])
def test_pictures_are_turned_and_mirrored_upright(rotation: int, flips: tuple[bool, bool]) -> None:
    spec = ClipSpec(rotation=rotation, hflip=flips[0], vflip=flips[1], width=80)
    data = write_clip(spec)
    assert_true(sample_frames(data, 3), spec)
    assert probe(data)[:2] == (80, 48)


def test_the_same_clip_gives_the_same_frames_from_bytes_and_file_and_in_threads(tmp_path: Path) -> None:
    data = write_clip(ClipSpec(ticks=range(60), options=B_FRAMES))
    path = tmp_path / "a clip %d.mp4"
    path.write_bytes(data)
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(sample_frames, [data, path, data, path])
    for clip in others:
        assert times(clip) == times(first)
        pairs = zip(clip.frames, first.frames, strict=True)
        assert all(np.array_equal(one.pixels, other.pixels) for one, other in pairs)


def test_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sample_frames(write_clip(ClipSpec()))
    assert list(tmp_path.iterdir()) == []


REFUSED = {
    "no bytes": (b"", "empty"),
    "text": (b"not a clip at all", "unsupported"),
    "a playlist of other files": (b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n", "unsupported"),
    "animation": (clips.write_gif(), "animated"),
    "sound only": (clips.write_sound(), "unsupported"),
    "a header and nothing else": (b"\0\0\0\x18ftypisom" + bytes(12), "corrupt"),
    "EBML and nothing else": (b"\x1aE\xdf\xa3" + bytes(100), "corrupt"),
    "endless boxes": (b"\0\0\0\1moov" + b"\xff" * 8 + bytes(100), "truncated"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_clip_is_refused_with_one_line(name: str) -> None:
    data, kind = REFUSED[name]
    for read in (sample_frames, probe):
        with pytest.raises(UndecodableMedia) as caught:
            read(data)
        assert caught.value.kind == kind
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["mp4 h264 b-frames", "mkv h264", "webm vp9", "avi mpeg4", "avi mjpeg odd size"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.999])
def test_a_cut_clip_is_truncated_wherever_it_is_cut(name: str, share: float) -> None:
    data = write_clip(CONTAINERS[name])
    with pytest.raises(UndecodableMedia) as caught:
        sample_frames(data[: int(len(data) * share)])
    assert caught.value.kind == "truncated"


def test_a_cut_clip_whose_index_comes_first_is_truncated() -> None:
    whole = write_clip(CONTAINERS["mp4 in fragments"])
    with pytest.raises(UndecodableMedia, match="truncated"):
        sample_frames(whole[: len(whole) * 3 // 4])


def test_damage_in_the_middle_is_corrupt() -> None:
    data = bytearray(write_clip(ClipSpec(codec="mpeg4", options={"g": "1"}, width=160, height=120)))
    middle = slice(len(data) * 2 // 5, len(data) // 2)
    data[middle] = bytes(middle.stop - middle.start)
    with pytest.raises(UndecodableMedia) as caught:
        sample_frames(bytes(data))
    assert caught.value.kind == "corrupt"


@settings(max_examples=60)
@given(st.sampled_from(["mp4 h264 b-frames", "webm vp9", "avi mpeg4", "flv"]), st.data())
def test_damaged_bytes_give_frames_or_the_typed_error(name: str, data: st.DataObject) -> None:
    damaged = bytearray(DAMAGEABLE[name])
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=6)):
        damaged[at] = data.draw(st.integers(0, 255))
    for read in (probe, sample_frames):
        try:
            read(bytes(damaged))
        except UndecodableMedia as error:
            assert "\n" not in str(error)


DAMAGEABLE = {name: write_clip(CONTAINERS[name]) for name in ("mp4 h264 b-frames", "webm vp9", "avi mpeg4", "flv")}


@settings(max_examples=25)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.integers(1, 40), st.integers(0, 5000))
def test_any_times_come_back(gaps: list[int], wanted: int, offset: int) -> None:
    ticks = [offset + sum(gaps[:k]) for k in range(len(gaps))]
    spec = ClipSpec(codec="mpeg4", ticks=ticks, time_base=Fraction(1, 1000), width=32, height=32)
    clip = sample_frames(write_clip(spec), wanted)
    assert_true(clip, spec)
    assert 1 <= len(clip.frames) <= wanted
    assert numbers(clip)[0] == 1
    assert wanted == 1 or numbers(clip)[-1] == len(ticks)
    assert numbers(clip) == sorted(set(numbers(clip)))
    assert clip.duration_s > times(clip)[-1]
    # Evenly: the frame on screen at each k-th part of the clip is there.
    for k in range(wanted if wanted > 1 else 0):
        moment = k * clip.duration_s / (wanted - 1)
        on_screen = sum((tick - offset) / 1000 <= moment + 1e-6 for tick in ticks)
        just_before = sum((tick - offset) / 1000 <= moment - 1e-6 for tick in ticks)
        assert {max(1, on_screen), max(1, just_before)} & set(numbers(clip))


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (VideoLimits(max_video_pixels=64 * 48 - 1), "64x48 pixels, the limit is 3071"),
        (VideoLimits(max_duration_s=0.9), "1.0 s, the limit is 0.9"),
        (VideoLimits(max_bytes=100), "bytes, the limit is 100"),
    ],
)
def test_limits_hold_for_both(limits: VideoLimits, what: str) -> None:
    data = write_clip(ClipSpec())
    for refused in (lambda: sample_frames(data, limits=limits), lambda: probe(data, limits)):
        with pytest.raises(UndecodableMedia, match=what) as caught:
            refused()
        assert caught.value.kind == "too_large"
    assert sample_frames(data, limits=VideoLimits(64 * 48, 1.0, len(data))).width == 64


def test_a_size_that_changes_within_the_clip_is_unsupported() -> None:
    with pytest.raises(UndecodableMedia) as caught:
        sample_frames(clips.write_changing_size())
    assert caught.value.kind == "unsupported"


def test_mistakes_of_the_caller_are_no_faults_of_the_clip(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        sample_frames(write_clip(ClipSpec()), 0)
    with pytest.raises(FileNotFoundError):
        sample_frames(tmp_path / "none.mp4")


def test_vision_needs_neither_torch_nor_the_extra_until_a_clip_is_read() -> None:
    program = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("av", "molmo_utils", "torch", "decord"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from groundtrace.vision.frames import sample_frames
try:
    sample_frames(b"x")
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said = "reading clips needs the extra video: pip install 'groundtrace[video]' (the module av is not installed)"
    assert done.stdout == f"{said}\n"


@pytest.mark.faults
def test_memory_holds_the_kept_frames_only(tmp_path: Path) -> None:
    for name, ticks in (("short", range(4)), ("long", range(300))):
        spec = ClipSpec(ticks=ticks, width=640, height=480, options={"preset": "ultrafast"})
        (tmp_path / name).write_bytes(write_clip(spec))
    program = """
import resource, sys
from pathlib import Path
from groundtrace.vision.frames import sample_frames
for name in ("short", "long"):
    sample_frames(Path(sys.argv[1]) / name, 2)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    short_kib, long_kib = map(int, done.stdout.split())
    # All 300 would take 132 MiB as decoded and 264 MiB as RGB.
    assert long_kib - short_kib < 60 * 1024
