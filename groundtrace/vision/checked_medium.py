"""Checks an image or clip that a record names: decodes it, and returns a description or the reason of a failure."""

import threading
from typing import Final

from groundtrace.schemas.coding import record
from groundtrace.schemas.records import MediaRef
from groundtrace.vision.clips import VideoSettings, clip_ref
from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.frames import DEFAULT_VIDEO_LIMITS
from groundtrace.vision.hashing import dhash, pixel_sha256, sha256_bytes
from groundtrace.vision.media import MediaMissing, MediaNotAllowed, MediaStore

MEDIA_MISSING: Final = "media_missing"
MEDIA_NOT_ALLOWED: Final = "media_not_allowed"
UNDECODABLE_MEDIA: Final = "undecodable_media"
UNSUPPORTED_MEDIA: Final = "unsupported_media"
MAX_CLIP_BYTES = DEFAULT_VIDEO_LIMITS.max_bytes
_ONE_CLIP = threading.Lock()
"""A lock that a thread holds while it decodes a clip. So only one clip is decoded at a time, since the frames of a clip
need much RAM."""


@record
class CheckedMedium:
    """Holds the result of checking one image or clip.

    ``uri`` is the URI of the medium. ``ref`` is the reference to the medium; None if the medium is unusable. If the
    medium is unusable, ``reason`` is a short code for the cause, and ``detail`` explains it. Both are "" if the medium
    is usable.
    """

    uri: str
    ref: MediaRef | None
    reason: str
    detail: str


def check_medium(uri: str, store: MediaStore, video: VideoSettings | None = None) -> CheckedMedium:
    """Open one image or clip, decode it fully, and return a reference to it or the reason why it is unusable.

    ``uri`` is the URI of the image or clip, and ``store`` opens the file. The frames of a clip are written to the
    store. ``video`` holds the settings for clips; None means that clips are not accepted.
    """
    try:
        kind, data = store.open_sniffed(uri, MAX_CLIP_BYTES if video else None)
        if kind == "video":
            if video is None:
                return CheckedMedium(uri, None, UNSUPPORTED_MEDIA, f"{uri}: video")
            with _ONE_CLIP:
                return CheckedMedium(uri, clip_ref(uri, data, store, video), "", "")
        decoded = decode_image(data)
    except ImportError as error:
        return CheckedMedium(uri, None, UNSUPPORTED_MEDIA, f"{uri}: {error}")
    except MediaMissing as error:
        return CheckedMedium(uri, None, MEDIA_MISSING, str(error))
    except MediaNotAllowed as error:
        return CheckedMedium(uri, None, MEDIA_NOT_ALLOWED, str(error))
    except UndecodableMedia as error:
        return CheckedMedium(uri, None, UNDECODABLE_MEDIA, f"{uri}: {error}")
    ref = MediaRef(
        uri=uri,
        kind="image",
        sha256=sha256_bytes(data),
        pixel_sha256=pixel_sha256(decoded.pixels),
        dhash=f"{dhash(decoded.pixels):016x}",
        width=decoded.width,
        height=decoded.height,
        orientation=decoded.orientation,
        size_bytes=len(data),
    )
    return CheckedMedium(uri, ref, "", "")
