"""Clips: from a video file to a reference with its sampled frames, drawn once to the run folder.

Every model sees a clip as these frames, each with its number and time, also a model that could read the file itself.
So all models speak of the same pixels, and points on a frame can be checked like points on an image.
"""

import hashlib
from dataclasses import dataclass

import cv2

from schemas.records import FrameRef, MediaRef
from vision.decode import Pixels
from vision.frames import Clip, sample_frames
from vision.hashing import dhash, pixel_sha256, sha256_bytes
from vision.media import MediaStore

JPEG_QUALITY = 95


@dataclass(frozen=True)
class VideoSettings:
    """``max_frames`` of a clip are sampled, 32 as in Argos §4; the pointer looks at ``pointed_frames`` of them."""

    max_frames: int = 32
    pointed_frames: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.max_frames <= 32:
            raise ValueError(f"video.max_frames must be in 1 to 32, got {self.max_frames}")
        if not self.pointed_frames >= 1:
            raise ValueError(f"video.pointed_frames must be at least 1, got {self.pointed_frames}")


def clip_ref(uri: str, data: bytes, store: MediaStore, settings: VideoSettings) -> MediaRef:
    """Sample the clip and write its frames. Raises :class:`vision.decode.UndecodableMedia`."""
    clip = sample_frames(data, settings.max_frames)
    hashes = [pixel_sha256(frame.pixels) for frame in clip.frames]
    return MediaRef(
        uri=uri,
        kind="video",
        sha256=sha256_bytes(data),
        pixel_sha256=hashlib.sha256("".join(hashes).encode()).hexdigest(),
        dhash=f"{dhash(clip.frames[0].pixels):016x}",
        width=clip.width,
        height=clip.height,
        orientation=1,
        size_bytes=len(data),
        frames=_written(clip, store),
    )


def _written(clip: Clip, store: MediaStore) -> tuple[FrameRef, ...]:
    refs = []
    for number, frame in enumerate(clip.frames, 1):
        data = encode_frame(frame.pixels)
        refs.append(FrameRef(number, frame.t_s, store.write_drawn(data, "jpg"), sha256_bytes(data), len(data)))
    return tuple(refs)


def encode_frame(pixels: Pixels) -> bytes:
    """The RGB frame as JPEG: as PNG the frames of a clip would be several times as large as the clip."""
    done, data = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise ValueError(f"a frame of shape {pixels.shape} cannot be written as JPEG")
    return data.tobytes()
