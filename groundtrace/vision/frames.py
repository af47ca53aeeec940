"""Decodes a clip's bytes to upright frames at exact times, or raises a typed error with the reason.

The paper Argos (section 4.2, appendix C) shows the teacher model at most 32 frames, spread evenly over the clip, with
their times. The library molmo-utils chooses the moments at which frames are taken. It uses its rule
``uniform_last_frame``. Its limit of 2 frames per second is switched off. The frames and times that molmo-utils returns
are not used, because its version 0.0.1 has these faults:

- It computes a time as the frame index divided by the mean rate, in float32.
- For H.264 in AVI, all its times are 0. This gives 32 copies of one frame.
- Its fast reader fails on some clips with tiny frames. It then uses another reader, which keeps every frame in memory.

Therefore molmo-utils does not read the real clip. It reads a substitute clip: a file of blank frames with the frame
times of the real clip. In the substitute clip, molmo-utils chooses the moments. Each moment is divided by the duration
of the substitute clip, and multiplied by the exact duration of the real clip. Then the real clip is decoded once in
full, and the frames that are visible at the resulting moments are kept.

Times are the container's presentation times, relative to the first visible frame. A container can have an edit list,
which shifts times or hides frames. The edit list is applied before the times are read. An AVI file is different: it has
an index with one entry for each frame, instead of presentation times. The n-th visible frame gets the time of the n-th
entry. Empty index entries, which only repeat the frame before, are not counted.

The content of the file determines the format. Other files that the clip refers to are never opened. Non-square pixels
and HDR colours are not converted. Truncation is detected in MP4, QuickTime, Matroska, WebM and AVI, because these files
state their own length.
"""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from groundtrace.config.extras import require_extra
from groundtrace.vision.decode import UndecodableMedia
from groundtrace.vision.media import HEAD_BYTES, sniff_kind
from groundtrace.vision.samples import Pixels

if TYPE_CHECKING:
    from av import VideoFrame, VideoStream
    from av.container import InputContainer

CLIP_MODULES: Final = ("av", "molmo_utils")
"""The modules that the extra ``video`` installs."""
_FORMATS: Final = "mov,matroska,avi,mpeg,mpegvideo,mpegts,flv,asf,ogg"
_BOXES: Final = b"ftyp styp moov moof mdat sidx wide skip free uuid meta udta".split()
_READER: Final = "decord"
_STAND_IN_SIDE_PX: Final = 64  # the fast reader fails on 16 pixels
_STAND_IN_HZ: Final = 90_000  # MP4 counts durations in 32 bits: gaps of up to six hours


@dataclass(frozen=True)
class VideoLimits:
    """Holds the size limits of a clip.

    ``max_video_pixels`` is the maximum of width times height of a frame. ``max_duration_s`` is the maximum duration in
    seconds. ``max_bytes`` is the maximum size of the file in bytes.
    """

    max_video_pixels: float = 9e6
    max_duration_s: float = 1800.0
    max_bytes: int = 2 * 2**30


DEFAULT_VIDEO_LIMITS: Final = VideoLimits()


@dataclass(frozen=True, eq=False)
class Frame:
    """Holds one frame of a clip with its number and time.

    ``number`` is the frame's position among all frames of the clip in display order, from 1. ``t_s`` is the time in
    seconds from the start of the clip's first frame to the start of this frame, not rounded. ``pixels`` is the upright
    frame as ``(H, W, 3)`` uint8 RGB.
    """

    number: int
    t_s: float
    pixels: Pixels


@dataclass(frozen=True, eq=False)
class Clip:
    """Holds the sampled frames of a clip in display order.

    ``width`` and ``height`` are the size of an upright frame in pixels. ``duration_s`` is the time in seconds from the
    start of the first frame to the end of the last frame. ``fps`` is the mean number of frames per second of the whole
    clip, not only of the sampled frames. It is 0 for a single frame of unknown duration.
    """

    width: int
    height: int
    duration_s: float
    fps: float
    frames: tuple[Frame, ...]


def sample_frames(data: bytes | Path, max_frames: int = 32, limits: VideoLimits = DEFAULT_VIDEO_LIMITS) -> Clip:
    """Decode a clip, and return at most ``max_frames`` distinct frames of it, evenly spread in time.

    ``data`` is the content of the file as bytes, or the path of a local file. ``limits`` holds the accepted sizes. The
    result always has the first frame of the clip, and, if ``max_frames`` is above 1, the last frame. The same input
    always gives the same frames.

    Raises :class:`UndecodableMedia` if the data is not a complete clip within the limits. Raises ValueError if
    ``max_frames`` is below 1. Raises :class:`groundtrace.config.extras.MissingExtra` if the extra ``video`` is not
    installed.
    """
    if max_frames < 1:
        raise ValueError(f"max_frames must be at least 1, got {max_frames}")
    with _opened(data, limits) as (container, stream):
        timeline = _scan(container, stream, limits)
    moments = _moments(timeline, max_frames)
    with _opened(data, limits) as (container, stream):
        return _decode(container, stream, timeline, moments, limits)


def probe(data: bytes | Path, limits: VideoLimits = DEFAULT_VIDEO_LIMITS) -> tuple[int, int, float]:
    """Return the width and height of a clip's upright frames in pixels, and its duration in seconds.

    ``data`` is the content of the file as bytes, or the path of a local file. The function reads the whole file but
    decodes only one frame. Therefore damage after the first frame may be undetected. Raises :class:`UndecodableMedia`
    if the data is not a usable clip within ``limits`` (the accepted sizes and duration), and
    :class:`groundtrace.config.extras.MissingExtra` if the extra ``video`` is not installed.
    """
    with _opened(data, limits) as (container, stream):
        timeline = _scan(container, stream, limits)
    with _opened(data, limits) as (container, stream):
        first = next(container.decode(stream), None)
        if first is None:
            raise UndecodableMedia("corrupt", "no frame of the clip can be decoded")
        height, width = _upright_rgb(first, limits).shape[:2]
    return width, height, timeline.duration_s


@dataclass(frozen=True)
class _Timeline:
    """Holds the start times of a clip's frames, in ascending order, and the length of the clip.

    ``length`` is the time from the first start to the end of the last frame. ``starts`` and ``length`` are in ticks of
    ``tick_s`` seconds.
    """

    starts: Sequence[int]
    length: int
    tick_s: Fraction
    duration_s: float


@contextmanager
def _opened(data: bytes | Path, limits: VideoLimits) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Yield the clip's container and its first video stream that is not a cover picture.

    Errors of FFmpeg are converted to UndecodableMedia.
    """
    av, _ = _extra()
    with io.BytesIO(data) if isinstance(data, bytes) else data.open("rb") as file:
        _check_container(file, limits)
        options = {"format_whitelist": _FORMATS, "protocol_whitelist": "file"}
        source = file if isinstance(data, bytes) else str(data.resolve())
        try:
            with av.open(source, options=options, metadata_errors="replace") as container:
                cover = av.stream.Disposition.attached_pic
                streams = [s for s in container.streams.video if s.codec_context and not s.disposition & cover]
                if not streams:
                    raise UndecodableMedia("unsupported", "the file has no video stream that can be decoded")
                stream = streams[0]
                _check_size(stream.width, stream.height, limits)
                stream.thread_type = "AUTO"
                yield container, stream
        except av.FFmpegError as error:
            raise UndecodableMedia(
                "corrupt", f"FFmpeg cannot read it: {error.strerror or type(error).__name__}"
            ) from error


def _extra() -> tuple[Any, Any]:
    """Return the module of PyAV, and the reader of molmo-utils.

    They are imported at the first use, because only the extra ``video`` installs them.
    """
    require_extra("video", "reading clips", *CLIP_MODULES)
    import av
    from molmo_utils import fetch_video, vision_process

    # The reader is always named in the call, but molmo-utils looks for its default too, and prints it on the terminal.
    vision_process.get_default_video_reader_backend = lambda: _READER
    return av, fetch_video


def _check_container(file: BinaryIO, limits: VideoLimits) -> None:
    """Check the size, the format and the completeness of a video file, before FFmpeg opens it.

    The format is checked first because FFmpeg also accepts playlists, and would open the files that a playlist names.
    Raises UndecodableMedia if the file is empty, too large, of an unsupported format or truncated.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    if not head:
        raise UndecodableMedia("empty", "the file has no bytes")
    if size > limits.max_bytes:
        raise UndecodableMedia("too_large", f"the clip has {size} bytes, the limit is {limits.max_bytes}")
    if sniff_kind(head) != "video":
        kind = "animated" if head.startswith(b"GIF8") else "unsupported"
        raise UndecodableMedia(kind, "the format of the file is not a supported video format: convert it to MP4")
    if _stops_early(file, head, size):
        raise UndecodableMedia("truncated", "the file is incomplete: it is shorter than its header declares")
    file.seek(0)


def _stops_early(file: BinaryIO, head: bytes, size: int) -> bool:
    """Return whether a video file is cut off.

    A video file, such as an MP4 or Matroska file, states its own length in bytes. It is cut off if this length is
    larger than ``size``, the number of bytes that the file really has. ``head`` holds the first bytes of the file.
    """
    at, length, unknown = 0, 0, 0
    if head.startswith(b"RIFF"):
        return size < int.from_bytes(head[4:8], "little") + 8 < 2**32
    if head.startswith(b"\x1aE\xdf\xa3"):
        for _ in ("header", "segment"):  # an id of four bytes, then the size, whose leading zero bits give its length
            count = 9 - int.from_bytes(head[at + 4 : at + 5], "big").bit_length()
            unknown = (1 << 7 * count) - 1
            length = int.from_bytes(head[at + 4 : at + 4 + count], "big") & unknown
            at += 4 + count + length
        return at > size and length != unknown
    box = head
    while box[4:8] in _BOXES and at <= size:
        length = int.from_bytes(box[8:16] if box[:4] == b"\0\0\0\1" else box[:4], "big")
        at += length or size  # 0 means up to the end
        file.seek(min(at, size))
        box = file.read(16)
    return at > size and bool(length)


def _check_size(width: int, height: int, limits: VideoLimits) -> None:
    if width * height > limits.max_video_pixels:
        raise UndecodableMedia(
            "too_large", f"the frames have {width}x{height} pixels, the limit is {limits.max_video_pixels:.0f} in total"
        )


def _scan(container: InputContainer, stream: VideoStream, limits: VideoLimits) -> _Timeline:
    """Return the start times of a clip's frames and the clip's length, read from the packets without decoding.

    Raises UndecodableMedia if a packet is damaged, if the clip has no frames, or if the clip exceeds the maximum
    duration in ``limits``.
    """
    spans: list[tuple[int, int]] = []
    for packet in container.demux(stream):
        start = packet.dts if packet.pts is None or container.format.name == "avi" else packet.pts
        if packet.is_corrupt:
            raise UndecodableMedia("corrupt", f"packet {len(spans) + 1} of the video is damaged")
        if packet.size and not packet.is_discard and start is not None:
            spans.append((start, packet.duration or 0))
    if not spans:
        raise UndecodableMedia("corrupt", "the video stream of the file holds no frames")
    spans.sort()
    timeline = _timeline([start for start, _ in spans], spans[-1][1], stream)
    if timeline.duration_s > limits.max_duration_s:
        raise UndecodableMedia(
            "too_large", f"the clip lasts {timeline.duration_s:.1f} s, the limit is {limits.max_duration_s:g} s"
        )
    return timeline


def _timeline(starts: Sequence[int], last: int | None, stream: VideoStream) -> _Timeline:
    """Return the timeline of a clip whose frames begin at the times ``starts``.

    The times are in ticks, the units of time of the stream. The last frame's duration is ``last`` ticks. If ``last`` is
    0 or None, the mean duration of the other frames is used instead. If there are no other frames, the duration is
    computed from the stream's frame rate.
    """
    tick_s, rate = stream.time_base or Fraction(1), stream.average_rate
    length = starts[-1] - starts[0]
    mean = round(length / (len(starts) - 1)) if len(starts) > 1 else round(1 / rate / tick_s) if rate else 0
    length += last or mean
    return _Timeline(starts, length, tick_s, float(length * tick_s))


def _moments(timeline: _Timeline, max_frames: int) -> list[int]:
    """Return the moments at which the library molmo-utils takes frames, in ticks and in ascending order.

    A tick is the unit of time of ``timeline``. The moments are between the first frame's start and the clip's end, both
    included.
    """
    with tempfile.TemporaryDirectory(prefix="clip-") as folder:
        path = Path(folder) / "stand-in.mp4"
        _write_stand_in(path, timeline)
        settings = {"num_frames": max_frames, "max_fps": None, "frame_sample_mode": "uniform_last_frame"}
        _, found = _extra()[1]({"video": str(path), "backend": _READER, **settings})
    shares = np.asarray(found["frames_indices"], np.float64) / (found["fps"] * found["duration"])
    # The shares are float32: without the tolerance a moment could be just before the frame that begins at it.
    return [timeline.starts[0] + int(min(1.0, share + 2.5e-7) * timeline.length) for share in shares.tolist()]


def _write_stand_in(path: Path, timeline: _Timeline) -> None:
    """Write the substitute clip: an MP4 of blank frames with the frame times of the real clip.

    The library molmo-utils reads this clip to choose the moments at which the real clip is sampled. The times are
    rounded to the nearest 1/90,000 s. All frames share one encoded blank image.
    """
    av, _ = _extra()
    hz = Fraction(1, _STAND_IN_HZ)
    with av.open(str(path), "w", format="mp4") as out:
        stream = out.add_stream("mjpeg", width=_STAND_IN_SIDE_PX, height=_STAND_IN_SIDE_PX, pix_fmt="yuvj420p")
        stream.time_base = stream.codec_context.time_base = hz
        blank = av.VideoFrame.from_ndarray(np.zeros((_STAND_IN_SIDE_PX, _STAND_IN_SIDE_PX, 3), np.uint8))
        blank.pts = 0
        coded = bytes([*stream.encode(blank), *stream.encode(None)][0])
        ticks = sorted({round((t - timeline.starts[0]) * timeline.tick_s / hz) for t in timeline.starts})
        ticks.append(max(ticks[-1] + 1, round(timeline.length * timeline.tick_s / hz)))
        for start, end in pairwise(ticks):
            packet = av.Packet(coded)
            packet.stream, packet.time_base = stream, hz
            packet.pts = packet.dts = start
            packet.duration, packet.is_keyframe = end - start, True
            out.mux(packet)


def _decode(
    container: InputContainer, stream: VideoStream, timeline: _Timeline, moments: list[int], limits: VideoLimits
) -> Clip:
    """Decode all frames in order, and return a clip with the frames that are visible at the times ``moments``.

    ``moments`` are in ticks of ``timeline``, in ascending order. The frame that is visible at a moment is the last
    frame that starts at this moment or earlier. Raises UndecodableMedia if a frame is damaged, if the end of the clip
    cannot be decoded, or if the returned frames are too large or differ in size.
    """
    kept: list[Frame] = []
    starts: list[int] = []
    last: tuple[int, float, VideoFrame] | None = None
    for frame in container.decode(stream):
        start = frame.dts if frame.pts is None else frame.pts
        if container.format.name == "avi":
            start = timeline.starts[len(starts)] if len(starts) < len(timeline.starts) else None
        if frame.is_corrupt or start is None or (starts and start < starts[-1]):
            raise UndecodableMedia(
                "corrupt", f"frame {len(starts) + 1} is damaged, or its time is missing or too early"
            )
        if last and moments and moments[0] < start:
            kept.append(Frame(last[0], last[1], _upright_rgb(last[2], limits)))
            moments = [moment for moment in moments if moment >= start]
        starts.append(start)
        last = len(starts), float((start - starts[0]) * timeline.tick_s), frame
    lost = timeline.starts[-1] - starts[-1] if starts else math.inf
    if last is None or lost * len(timeline.starts) > 2 * timeline.length:  # some codecs end in packets without a frame
        raise UndecodableMedia("corrupt", f"the clip cannot be decoded after its first {len(starts)} frames")
    if moments:
        kept.append(Frame(last[0], last[1], _upright_rgb(last[2], limits)))
    height, width = kept[0].pixels.shape[:2]
    if any(frame.pixels.shape != kept[0].pixels.shape for frame in kept):
        raise UndecodableMedia(
            "unsupported", "the size of the frames changes within the clip: encode it again with one size"
        )
    duration_s = _timeline(starts, last[2].duration, stream).duration_s
    return Clip(width, height, duration_s, len(starts) / duration_s if duration_s else 0.0, tuple(kept))


def _upright_rgb(frame: VideoFrame, limits: VideoLimits) -> Pixels:
    """Return the frame as ``(H, W, 3)`` RGB, turned and mirrored as its display matrix requires. The angle is rounded
    to a multiple of 90°."""
    from av.sidedata.sidedata import Type

    _check_size(frame.width, frame.height, limits)
    pixels = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
    side_data: Any = frame.side_data  # PyAV's stubs type its values as objects
    if (matrix := side_data.get(Type.DISPLAYMATRIX)) is not None:
        # A stored (x, y) is shown at (a x + c y, b x + d y), up to a shift.
        a, b, _, c, d = np.frombuffer(bytes(matrix), np.int32)[:5].tolist()
        if abs(b) + abs(c) > abs(a) + abs(d):
            pixels, a, d = pixels.transpose(1, 0, 2), c, b
        pixels = pixels[:: -1 if d < 0 else 1, :: -1 if a < 0 else 1]
    return np.ascontiguousarray(pixels)
