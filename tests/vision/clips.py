"""Small test clips, written with PyAV: every frame says its own number in black and white."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import av
import numpy as np
from PIL import Image

from groundtrace.vision.samples import Pixels

_BITS = 8


def picture(number: int, width: int, height: int) -> Pixels:
    """A frame that says ``number``: eight columns, white for a set bit, over a bright left and a dark right floor."""
    canvas = np.zeros((height, width, 3), np.uint8)
    for bit in range(_BITS):
        columns = slice(bit * width // _BITS, (bit + 1) * width // _BITS)
        canvas[: height // 2, columns] = 255 * (number >> bit & 1)
    canvas[height // 2 :, : width // 2] = (220, 40, 40)
    canvas[height // 2 :, width // 2 :] = (40, 40, 220)
    return canvas


def number_of(pixels: Pixels) -> int:
    """The number that a decoded, upright :func:`picture` says."""
    height, width = pixels.shape[:2]
    columns = [int((bit + 0.5) * width / _BITS) for bit in range(_BITS)]
    return sum(1 << bit for bit, x in enumerate(columns) if pixels[height // 4, x].mean() > 128)


def is_upright(pixels: Pixels) -> bool:
    """Whether the floor is at the bottom, red on the left and blue on the right."""
    height, width = pixels.shape[:2]
    left, right = pixels[height * 3 // 4, width // 4].astype(int), pixels[height * 3 // 4, width * 3 // 4].astype(int)
    return bool(left[0] > left[2] + 60 and right[2] > right[0] + 60)


@dataclass(frozen=True)
class ClipSpec:
    """How to write a clip: ``ticks`` are the frames' times in units of ``time_base``, shown are pictures 1, 2, …

    ``width`` and ``height`` are upright; what is stored is turned and mirrored so that a player which turns it by
    ``rotation`` degrees anticlockwise, then mirrors it, shows it upright.
    """

    container: str = "mp4"
    codec: str = "libx264"
    pix_fmt: str = "yuv420p"
    width: int = 64
    height: int = 48
    ticks: Sequence[int] = tuple(range(10))
    time_base: Fraction = Fraction(1, 10)
    rotation: int = 0
    hflip: bool = False
    vflip: bool = False
    sound: bool = False
    options: dict[str, str] = field(default_factory=dict)
    muxer_options: dict[str, str] = field(default_factory=dict)

    def stored(self, number: int) -> Pixels:
        """A picture as the decoder hands it over."""
        upright = picture(number, self.width, self.height)
        upright = upright[:, ::-1] if self.hflip else upright
        upright = upright[::-1] if self.vflip else upright
        return np.ascontiguousarray(np.rot90(upright, -self.rotation // 90))


B_FRAMES = {"bf": "2", "g": "12", "b-adapt": "0"}
CONTAINERS = {
    "mp4 h264 b-frames": ClipSpec(options=B_FRAMES),
    "mp4 hevc 10 bit": ClipSpec(codec="libx265", pix_fmt="yuv420p10le", options={"x265-params": "log-level=none"}),
    "mp4 grey": ClipSpec(pix_fmt="gray"),
    "mp4 with sound": ClipSpec(sound=True),
    "mp4 in fragments": ClipSpec(muxer_options={"movflags": "frag_keyframe+empty_moov"}),
    "mov mjpeg": ClipSpec("mov", "mjpeg", "yuvj420p"),
    "mkv h264": ClipSpec("matroska", options=B_FRAMES),
    "webm vp9": ClipSpec("webm", "libvpx-vp9"),
    "webm vp8 hidden frames": ClipSpec("webm", "libvpx", options={"auto-alt-ref": "1", "lag-in-frames": "8"}),
    "avi mpeg4": ClipSpec("avi", "mpeg4"),
    "avi mpeg4 b-frames": ClipSpec("avi", "mpeg4", options={"bf": "2"}),
    "avi h264 b-frames": ClipSpec("avi", options=B_FRAMES),
    "avi mjpeg odd size": ClipSpec("avi", "mjpeg", "yuvj444p", 317, 211),
    "mp4 odd size": ClipSpec(pix_fmt="yuv444p", width=317, height=211),
    "webm odd size": ClipSpec("webm", "libvpx-vp9", width=317, height=211),
    "flv": ClipSpec("flv"),
    "ts": ClipSpec("mpegts", time_base=Fraction(1, 25)),
}
"""One clip of every kind: 10 frames, 10 a second where the container can say so."""


def write_clip(spec: ClipSpec) -> bytes:
    """The clip as bytes of its container."""
    out = io.BytesIO()
    with av.open(out, "w", format=spec.container, options=spec.muxer_options) as container:
        stream = container.add_stream(spec.codec, rate=round(1 / spec.time_base), options=spec.options)
        assert isinstance(stream, av.VideoStream)
        stream.height, stream.width = spec.stored(1).shape[:2]
        stream.pix_fmt = spec.pix_fmt
        stream.time_base = stream.codec_context.time_base = spec.time_base
        if spec.rotation or spec.hflip or spec.vflip:
            stream.set_display_rotation(spec.rotation, hflip=spec.hflip, vflip=spec.vflip)
        sound = container.add_stream("aac", rate=48000) if spec.sound else None
        for number, tick in enumerate(spec.ticks, 1):
            frame = av.VideoFrame.from_ndarray(spec.stored(number), format="rgb24")
            frame.pts, frame.time_base = tick, spec.time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound is not None:
            container.mux([*sound.encode(_silence()), *sound.encode(None)])
    return out.getvalue()


def write_sound() -> bytes:
    """A moment of silence in an MP4 that has no picture."""
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("aac", rate=48000)
        container.mux([*stream.encode(_silence()), *stream.encode(None)])
    return out.getvalue()


def _silence() -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
    frame.sample_rate, frame.pts = 48000, 0
    return frame


def write_edited(first: int, count: int) -> bytes:
    """A clip of 20 frames, 0.1 s each, of which an edit list shows ``count`` from the one after ``first`` on."""
    data = bytearray(write_clip(ClipSpec(codec="mpeg4", ticks=range(20), options={"g": "1"})))
    with av.open(io.BytesIO(bytes(data))) as container:
        per_frame = int(Fraction(1, 10) / (container.streams.video[0].time_base or 1))
    at = data.index(b"elst") + 12
    (_, media_time) = struct.unpack(">Ii", data[at : at + 8])
    data[at : at + 8] = struct.pack(">Ii", 100 * count, media_time + first * per_frame)  # the first is in milliseconds
    return bytes(data)


def write_changing_size() -> bytes:
    """An AVI of JPEG pictures, ten 64 pixels wide and ten 96."""
    out = io.BytesIO()
    with av.open(out, "w", format="avi") as joined:
        clips = [write_clip(ClipSpec("avi", "mjpeg", "yuvj420p", width)) for width in (64, 96)]
        sources = [av.open(io.BytesIO(clip), "r") for clip in clips]
        stream = joined.add_stream_from_template(sources[0].streams.video[0])
        for number, source in enumerate(sources):
            for packet in source.demux(video=0):
                if packet.size and packet.dts is not None:
                    packet.pts = packet.dts = packet.dts + 10 * number
                    packet.stream = stream
                    joined.mux(packet)
            source.close()
    return out.getvalue()


def write_gif() -> bytes:
    """An animation of two pictures."""
    out = io.BytesIO()
    pictures = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (0, 200)]
    pictures[0].save(out, "GIF", save_all=True, append_images=pictures[1:])
    return out.getvalue()
