"""Prepares an image or a video of a prompt so that it can be sent to a server. Videos stay unchanged. JPEG and PNG
files also stay unchanged if their EXIF orientation is upright. All other images become PNG files.
"""

from groundtrace.grading.messages import MediaPart
from groundtrace.vision.checked_medium import MAX_CLIP_BYTES
from groundtrace.vision.media import MediaStore
from groundtrace.vision.overlay import encode_png

_IMAGE_MIMES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
_MATROSKA, _QUICKTIME = b"\x1aE\xdf\xa3", b"ftypqt  "


def media_bytes(media: MediaStore, part: MediaPart) -> tuple[bytes, str]:
    """Return the bytes to send for an image or a video, and their MIME type. ``media`` is the store from which ``part``
    is read. Videos are never re-encoded. An image is re-encoded as PNG only if it is neither PNG nor JPEG, or if its
    EXIF orientation is not upright.

    Raises :class:`groundtrace.vision.decode.UndecodableMedia` if the file is larger than the pipeline accepts.
    """
    data = media.open_bytes(part.uri, MAX_CLIP_BYTES if part.kind == "video" else media.limits.max_bytes)
    if part.kind == "video":
        return data, _video_mime(data)
    mime = next((mime for magic, mime in _IMAGE_MIMES.items() if data.startswith(magic)), None)
    if mime is None or not part.upright:
        return encode_png(media.pixels(part.uri)), "image/png"
    return data, mime


def _video_mime(data: bytes) -> str:
    if data.startswith(_MATROSKA):
        return "video/webm" if b"webm" in data[:64] else "video/x-matroska"
    if data[:4] == b"RIFF":
        return "video/x-msvideo"
    return "video/quicktime" if data[4:12] == _QUICKTIME else "video/mp4"
