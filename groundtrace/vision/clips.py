"""Selects some frames of a video file, writes them to the run's output folder, and describes the clip by these frames.

Every model gets a clip as these frames, each with its number and time, even if the model could read the video file. All
models therefore refer to the same pixels, and points on a frame can be verified like points on an image.
"""

import hashlib
from typing import Annotated

import cv2
from pydantic import Field, PositiveInt

from groundtrace.config.settings import settings
from groundtrace.schemas.records import FrameRef, MediaRef
from groundtrace.vision.frames import Clip, sample_frames
from groundtrace.vision.hashing import dhash, pixel_sha256, sha256_bytes
from groundtrace.vision.media import MediaStore
from groundtrace.vision.samples import Pixels

JPEG_QUALITY = 95


@settings
class VideoSettings:
    """Limits how many frames of a clip (a video) the models see. The paper Argos (§4) uses 32 frames.

    The pointer is the model that finds named things in images. It sees fewer frames than the other models.
    """

    max_frames: Annotated[int, Field(ge=1, le=32), "the maximum number of frames sampled from a clip"] = 32
    pointed_frames: Annotated[PositiveInt, "the number of these frames that the pointer sees"] = 8


def clip_ref(uri: str, data: bytes, store: MediaStore, settings: VideoSettings) -> MediaRef:
    """Sample frames of a video file, write them as JPEG files, and return a description of the clip.

    ``uri`` is the clip's media URI (``input:…``), and ``data`` holds the bytes of its file. ``store`` writes the frames
    into the run's output folder. ``settings`` holds the maximum number of frames. The result holds the clip's size and
    hashes, and the number, time and URI of each sampled frame.

    Raises :class:`groundtrace.vision.decode.UndecodableMedia` if ``data`` is not a complete clip, or if the clip
    exceeds the maximum sizes or duration of :class:`groundtrace.vision.frames.VideoLimits`.
    """
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
    """Return a frame as the bytes of a JPEG file. ``pixels`` is ``(H, W, 3)`` uint8 RGB.

    JPEG is used because PNG files of all frames would be several times as large as the clip. Raises ValueError if
    OpenCV cannot encode the array.
    """
    done, data = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise ValueError(f"OpenCV cannot write a frame of shape {pixels.shape} as JPEG")
    return data.tobytes()
