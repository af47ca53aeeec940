"""Implements the media store. Only this module resolves a media URI to a path, locally or on remote storage.

A media URI has one of two forms: ``input:<relative path>`` is a file in the data folder, and
``run:media/<sha256>.<ext>`` is a file in the run's output folder, written by a stage (one step of the pipeline). The
data folder and the output folder are called roots; each is a local folder or a URL of an object store
(:mod:`groundtrace.storage.places`). The path in a URI cannot lead out of its root.

The data may be from a third party. Therefore a symbolic link in the data folder is followed only if its target is
inside the data folder. There is one exception: in the cache of the Hugging Face Hub, the files of a data set are links
to files in a folder ``blobs``, which is outside the data folder. Such a link is followed if ``blobs`` belongs to the
same data set. The data folder itself may be a link.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeVar

from groundtrace.schemas.safe_files import is_inside
from groundtrace.storage.places import STANDARD, Place, RemotePath, StorageSettings, place, write_whole
from groundtrace.vision.decode import DEFAULT_LIMITS, Limits, UndecodableMedia, decode_image
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.lru_cache import LruCache
from groundtrace.vision.samples import Pixels

HEAD_BYTES: Final = 512
"""The number of leading bytes that :func:`sniff_kind` needs."""
STAGE_CACHE_BYTES: Final = 32 * 2**20
"""The size of a stage's cache of decoded images; it is small, because a stage reads most images once."""

T = TypeVar("T")
_DRAWN: Final = re.compile(r"media/[0-9a-f]{64}\.[a-z0-9]{1,8}")
_EXTENSION: Final = re.compile(r"[a-z0-9]{1,8}")
_NO_SUCH_FILE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
_NOT_READABLE: Final = (errno.EIO, errno.EINVAL, errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP)
"""The error numbers of a file that exists, but cannot be read.

For example, a link leads to a file of /proc or to a device, or the disk is damaged.
"""

_MAGIC: Final[tuple[tuple[int, bytes, Literal["image", "video"]], ...]] = (
    (0, b"\xff\xd8\xff", "image"),
    (0, b"\x89PNG\r\n\x1a\n", "image"),
    (0, b"GIF87a", "image"),
    (0, b"GIF89a", "image"),
    (0, b"II*\0", "image"),
    (0, b"MM\0*", "image"),
    (0, b"\0\0\0\x0cjP  ", "image"),
    (0, b"\0\0\0\x0cJXL ", "image"),
    (0, b"\x1aE\xdf\xa3", "video"),  # EBML: Matroska and WebM
    (0, b"\0\0\x01\xba", "video"),  # MPEG program stream
    (0, b"\0\0\x01\xb3", "video"),  # MPEG video
    (0, b"FLV\x01", "video"),
    (0, b"0&\xb2u\x8ef\xcf\x11", "video"),  # ASF: WMV
    (0, b"OggS", "video"),
    (4, b"moov", "video"),  # QuickTime without a leading ftyp
    (4, b"mdat", "video"),
    (4, b"wide", "video"),
    (4, b"skip", "video"),
    (4, b"free", "video"),
)
_RIFF_KINDS: Final[dict[bytes, Literal["image", "video"]]] = {b"WEBP": "image", b"AVI ": "video"}
_STILL_BRANDS: Final = (b"avif", b"avis", b"heic", b"heix", b"heif", b"mif1", b"msf1", b"hevc", b"hevx")
_SOUND_BRANDS: Final = (b"M4A ", b"M4B ", b"M4P ")


class MediaMissing(FileNotFoundError):
    """Raised if a media URI is valid, but its file does not exist."""


class MediaNotAllowed(PermissionError):
    """Raised if a text is not a valid media URI, if its file is outside the data folder and the run folder, or if the
    file cannot be read.
    """


def sniff_kind(data_head: bytes) -> Literal["image", "video"] | None:
    """Return whether a file is an image or a video, judged by its first bytes. Returns None if it is neither.

    ``data_head`` holds the first :data:`HEAD_BYTES` bytes of the file, or all bytes of a shorter file. The kind of a
    GIF is "image"; the decoder rejects animated GIFs later.
    """
    if data_head[4:8] == b"ftyp":
        brand = data_head[8:12]
        if brand in _SOUND_BRANDS:
            return None
        return "image" if brand in _STILL_BRANDS else "video"
    if data_head[:4] == b"RIFF":
        return _RIFF_KINDS.get(data_head[8:12])
    for offset, magic, kind in _MAGIC:
        if data_head.startswith(magic, offset):
            return kind
    # Two letters are not enough evidence: check BMP's reserved bytes and Netpbm's first separator, too.
    if data_head[:2] == b"BM" and data_head[6:10] == bytes(4) and len(data_head) >= 18:
        return "image"
    if re.match(rb"P[1-6]\s", data_head):
        return "image"
    if data_head[:1] == b"G" and data_head[188:189] == b"G":  # MPEG transport stream: a sync byte per packet
        return "video"
    return None


class MediaStore:
    """Opens images and clips by URI, caches decoded pixels, and writes the images that a pipeline makes, such as crops.

    Attributes:
        input_root: the data folder, a local path or a URL; URIs ``input:…`` are relative to it.
        run_root: the run's output folder, a local path or a URL; URIs ``run:…`` are relative to it.
        cache_bytes: the maximum size of the cache of decoded pixels. The least recently used image is removed first.
        limits: the accepted sizes of images.
        storage: the settings to access folders on remote storage.

    The store is thread-safe. Only its settings are pickled, not its cache.
    """

    def __init__(
        self,
        input_root: str,
        run_root: str,
        cache_bytes: int = 256 * 2**20,
        limits: Limits = DEFAULT_LIMITS,
        storage: StorageSettings = STANDARD,
    ) -> None:
        if cache_bytes < 0:
            raise ValueError(f"cache_bytes must not be negative, got {cache_bytes}")
        self.input_root = input_root
        self.run_root = run_root
        self.cache_bytes = cache_bytes
        self.limits = limits
        self.storage = storage
        self._pixels: LruCache[Pixels] = LruCache(cache_bytes, size_of=lambda pixels: pixels.nbytes)

    def __reduce__(self) -> tuple[type[MediaStore], tuple[str, str, int, Limits, StorageSettings]]:
        """Return only the settings for pickle. Therefore a worker process starts with an empty cache."""
        return type(self), (self.input_root, self.run_root, self.cache_bytes, self.limits, self.storage)

    def open_bytes(self, uri: str, max_bytes: int | None = None) -> bytes:
        """Return the bytes of the file that a URI names.

        ``max_bytes`` is the maximum size of the file; None means no limit. A file that is too large is not read in
        full.

        Raises :class:`MediaNotAllowed` if ``uri`` is not a valid media URI or the file may not be read. Raises
        :class:`MediaMissing` if there is no such file. Raises :class:`UndecodableMedia` of the kind ``too_large`` if
        the file is too large. Raises UndecodableMedia of the kind ``corrupt`` if a ``run:`` file has changed: its name
        is the SHA-256 of its bytes.
        """
        root, relative = self._split(uri)
        data = _read(root, relative, uri, max_bytes)
        if uri.startswith("run:") and sha256_bytes(data) != relative[6:70]:
            raise UndecodableMedia("corrupt", f"{uri} has changed since it was written: run again to write it again")
        return data

    def open_recorded(self, uri: str, sha256: str | None) -> bytes:
        """Return the bytes of an image that a row of a run names, if the file is still the one that the run read.

        ``sha256`` is the digest that the row states for the file; None matches no file. This digest is checked for the
        following reason. The run may be from a stranger, who can choose the data folder and the URI. So the URI may
        lead to any image of the user. But the bytes are returned only if their digest is ``sha256``. To know this
        digest, the stranger must have had the same bytes already.

        Raises :class:`UndecodableMedia` of the kind ``corrupt`` if the file has another digest, and of the kind
        ``too_large`` if it is larger than ``max_bytes`` of the store's limits. Raises :class:`MediaNotAllowed` if
        ``uri`` is not a valid media URI or the file may not be read, and :class:`MediaMissing` if there is no such
        file.
        """
        data = self.open_bytes(uri, self.limits.max_bytes)
        if sha256_bytes(data) != sha256:
            raise UndecodableMedia("corrupt", f"{uri} is not the file that the run read: restore this file to see it")
        return data

    def open_sniffed(self, uri: str, max_clip_bytes: int | None) -> tuple[Literal["image", "video"] | None, bytes]:
        """Return the kind of a file ("image", "video", or None for neither) and its bytes. A local file is opened only
        once.

        ``max_clip_bytes`` is the maximum size of a clip. If it is None, no clip is read: the kind "video" is then
        returned with empty bytes. For any other file, the maximum size is ``max_bytes`` of the store's limits.

        Raises :class:`UndecodableMedia` of the kind ``too_large`` for a file above its maximum size; such a file is not
        read in full. Raises :class:`MediaNotAllowed` if ``uri`` is not a valid media URI or the file may not be read,
        and :class:`MediaMissing` if there is no such file.
        """
        root, relative = self._split(uri)
        if isinstance(root, RemotePath):
            kind = self.kind_of(uri)
            if kind == "video" and max_clip_bytes is None:
                return kind, b""
            return kind, self.open_bytes(uri, max_clip_bytes if kind == "video" else self.limits.max_bytes)

        def sniffed(stream: BinaryIO, size_bytes: int) -> tuple[Literal["image", "video"] | None, bytes]:
            head = stream.read(HEAD_BYTES)
            kind = sniff_kind(head)
            if kind == "video" and max_clip_bytes is None:
                return kind, b""
            _check_bytes(size_bytes, max_clip_bytes if kind == "video" else self.limits.max_bytes)
            return kind, head + stream.read()

        return _read_local(root, relative, uri, sniffed)

    def kind_of(self, uri: str) -> Literal["image", "video"] | None:
        """Return the kind of the file that a URI names, judged by its first bytes: "image", "video", or None for
        neither.

        Raises :class:`MediaNotAllowed` if ``uri`` is not a valid media URI or the file may not be read, and
        :class:`MediaMissing` if there is no such file.
        """
        return sniff_kind(_read(*self._split(uri), uri, None, HEAD_BYTES))

    def pixels(self, uri: str) -> Pixels:
        """Return the upright pixels of the still image that a URI names, as a read-only ``(H, W, 3)`` uint8 RGB array.

        The array is shared with the cache: copy it before you change it. Raises :class:`UndecodableMedia` if the file
        is not a usable image, :class:`MediaNotAllowed` if ``uri`` is not a valid media URI or the file may not be read,
        and :class:`MediaMissing` if there is no such file.
        """
        return self._pixels.of(uri, lambda: self._decoded(uri))

    def _decoded(self, uri: str) -> Pixels:
        pixels = decode_image(self.open_bytes(uri, self.limits.max_bytes), self.limits).pixels
        pixels.flags.writeable = False
        return pixels

    def write_drawn(self, data: bytes, ext: str) -> str:
        """Write the bytes of an image to the run folder, and return the ``run:`` URI of the new file.

        ``data`` holds the encoded image, e.g. the content of a PNG file. The file's name is the SHA-256 of these bytes,
        so equal images share one file. ``ext`` is the file's extension without a dot, e.g. "png".

        If a file with these bytes exists already, nothing is written. A file of this name with other bytes is replaced.
        The write is atomic, even if several processes write the same file. Raises ValueError for an invalid ``ext``.
        """
        if not _EXTENSION.fullmatch(ext):
            raise ValueError(
                f"the file extension must be 1 to 8 lower-case letters or digits without a dot, got {ext!r}"
            )
        relative = f"media/{sha256_bytes(data)}.{ext}"
        _write(place(self.run_root, self.storage) / relative, data)
        return f"run:{relative}"

    def _split(self, uri: str) -> tuple[Place, str]:
        """Return the root (folder) to which a URI refers, and the validated relative path in this folder.

        Raises :class:`MediaNotAllowed` if ``uri`` has neither of the two forms of a media URI (``input:…`` and
        ``run:media/…``), or if the path of an ``input:`` URI is not a relative path inside the data folder.
        """
        scheme, _, relative = uri.partition(":")
        if scheme == "run" and _DRAWN.fullmatch(relative):
            return place(self.run_root, self.storage), relative
        if scheme != "input":
            raise MediaNotAllowed(f"{uri!r} is not a media URI: it must be input:PATH or run:media/SHA256.EXTENSION")
        parts = relative.split("/")
        odd = any(c in "\0\\" or "\ud800" <= c <= "\udfff" for c in relative) or "://" in relative
        drive = len(relative) > 1 and relative[1] == ":"
        if odd or drive or not relative or parts[0] == "" or ".." in parts:
            remedy = "download the file, and " if "://" in relative else ""
            raise MediaNotAllowed(
                f"{uri!r} is not a path inside the data folder: {remedy}give the path relative to the records' folder"
            )
        return place(self.input_root, self.storage), relative


@dataclass(frozen=True)
class MediaRoots:
    """Holds the two folders that contain a run's media, each a local path or a URL.

    ``input_root`` is the data folder, to which ``input:`` URIs refer. ``run_root`` is the run's output folder, to which
    ``run:`` URIs refer. ``storage`` holds the settings to access folders on remote storage.
    """

    input_root: str
    run_root: str
    storage: StorageSettings = STANDARD

    def store(self) -> MediaStore:
        """Return a new object that opens the images and clips in the data folder and the run's output folder. Its cache
        of decoded pixels holds at most :data:`STAGE_CACHE_BYTES` bytes.
        """
        return MediaStore(self.input_root, self.run_root, cache_bytes=STAGE_CACHE_BYTES, storage=self.storage)


def _missing(uri: str) -> MediaMissing:
    where = " (input: is the folder of the records)" if uri.startswith("input:") else ""
    return MediaMissing(f"no such file: {uri!r}{where}")


def _leaves(uri: str) -> MediaNotAllowed:
    remedy = "copy its target into this folder, or name the folder that contains both as --input"
    return MediaNotAllowed(f"{uri!r} is a link that leaves the data folder: {remedy}")


def _read(root: Place, relative: str, uri: str, max_bytes: int | None, head_bytes: int = -1) -> bytes:
    if isinstance(root, RemotePath):
        return _read_remote(root / relative, uri, max_bytes, head_bytes)

    def read(stream: BinaryIO, size_bytes: int) -> bytes:
        _check_bytes(size_bytes, max_bytes)
        return stream.read(head_bytes)

    return _read_local(root, relative, uri, read)


def _read_local(root: Path, relative: str, uri: str, read: Callable[[BinaryIO, int], T]) -> T:
    """Open a media file on this machine, call ``read`` with it, and return the result of ``read``.

    ``read`` gets two arguments: the opened file, and its size in bytes. ``root`` is the data folder or the run's output
    folder, and ``relative`` is the path of the file in this folder. ``uri`` is the media URI of the file. Raises
    :class:`MediaMissing` if there is no such file, and :class:`MediaNotAllowed` if the file may not or cannot be read.
    """
    try:
        path = (root / relative).resolve()
        if uri.startswith("input:") and not is_inside(path, root.resolve()):
            raise _leaves(uri)
        if path.is_file():  # a pipe or device would block or never end
            with path.open("rb") as stream:
                return read(stream, os.fstat(stream.fileno()).st_size)
    except RuntimeError as error:  # Python before 3.13 raises it for a cycle of links
        raise _missing(uri) from error
    except MediaNotAllowed:
        raise
    except PermissionError as error:
        raise MediaNotAllowed(f"this user has no permission to read {uri!r}: make the file readable") from error
    except OSError as error:
        if error.errno in _NOT_READABLE:
            raise MediaNotAllowed(f"{uri!r} cannot be read: {error.strerror}") from error
        if error.errno not in _NO_SUCH_FILE:
            raise
        raise _missing(uri) from error
    raise _missing(uri)


def _read_remote(path: RemotePath, uri: str, max_bytes: int | None, head_bytes: int) -> bytes:
    """Return the file's bytes, or only the first ``head_bytes`` bytes if ``head_bytes`` is not negative.

    ``max_bytes`` is the maximum size of the file; None means no limit. A larger file is not read in full: at most
    ``max_bytes`` + 1 bytes are requested. Raises :class:`UndecodableMedia` of the kind ``too_large`` if more than
    ``max_bytes`` bytes arrive, and :class:`MediaMissing` if there is no such file.
    """
    bound = max_bytes + 1 if max_bytes is not None else None
    try:
        data = path.read_bytes(0, head_bytes if head_bytes >= 0 else bound)
        if max_bytes is not None and len(data) > max_bytes:
            _check_bytes(path.stat().st_size, max_bytes)
    except FileNotFoundError as error:
        raise _missing(uri) from error
    return data


def _check_bytes(size: int, max_bytes: int | None) -> None:
    if max_bytes is not None and size > max_bytes:
        raise UndecodableMedia("too_large", f"the file has {size} bytes, the limit is {max_bytes}")


def _write(path: Place, data: bytes) -> None:
    try:
        if path.stat().st_size == len(data) and path.read_bytes() == data:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
