"""Where media live: the only place that turns a media uri into a path, locally or on remote storage.

Two uris exist. ``input:<relative path>`` is a file of the data folder, ``run:media/<sha256>.<ext>`` one a
stage drew. Neither can name anything outside its root. A link in the data folder is followed within it alone, for data
may come from somebody else; but a snapshot of the Hub is a folder of links to the files of its own data set. The data
folder itself may be a link. A root is a local folder or a URL of a store (:mod:`groundtrace.schemas.storage`).
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final, Literal

from groundtrace.schemas.storage import STANDARD, Place, RemotePath, StorageSettings, place, write_whole
from groundtrace.vision.decode import DEFAULT_LIMITS, Limits, UndecodableMedia, decode_image
from groundtrace.vision.hashing import sha256_bytes
from groundtrace.vision.recent import Recent
from groundtrace.vision.samples import Pixels

HEAD_BYTES: Final = 512
"""How many leading bytes :func:`sniff_kind` wants."""

_DRAWN: Final = re.compile(r"media/[0-9a-f]{64}\.[a-z0-9]{1,8}")
_EXTENSION: Final = re.compile(r"[a-z0-9]{1,8}")
_NO_SUCH_FILE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
_NOT_READABLE: Final = (errno.EIO, errno.EINVAL, errno.ENXIO, errno.ENODEV, errno.EOPNOTSUPP)
"""What the files of /proc and other devices say, to which a link may lead, and a damaged disk."""

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
    """The uri is allowed, but no such file is there."""


class MediaNotAllowed(PermissionError):
    """The uri is not a media uri, or it names something outside the two roots or a file that may not be read."""


def sniff_kind(data_head: bytes) -> Literal["image", "video"] | None:
    """Whether a file is an image, a video or neither (None), by its first :data:`HEAD_BYTES` bytes alone.

    A GIF counts as an image; the decoder refuses one that moves.
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
    # Two letters are too little evidence: BMP also fixes its reserved bytes, Netpbm its first separator.
    if data_head[:2] == b"BM" and data_head[6:10] == bytes(4) and len(data_head) >= 18:
        return "image"
    if re.match(rb"P[1-6]\s", data_head):
        return "image"
    if data_head[:1] == b"G" and data_head[188:189] == b"G":  # MPEG transport stream: a sync byte per packet
        return "video"
    return None


class MediaStore:
    """Opens media by uri, keeps decoded pixels within a bound, and writes what stages draw.

    ``input_root`` is the data folder, ``run_root`` the run's. ``cache_bytes`` bounds the decoded pixels kept
    (least recently used go first). ``storage`` is how remote roots are reached. Any number of threads may share a
    store; only its settings are pickled.
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
            raise ValueError(f"cache_bytes must not be negative: {cache_bytes}")
        self.input_root = input_root
        self.run_root = run_root
        self.cache_bytes = cache_bytes
        self.limits = limits
        self.storage = storage
        self._pixels: Recent[Pixels] = Recent(cache_bytes, size_of=lambda pixels: pixels.nbytes)

    def __reduce__(self) -> tuple[type[MediaStore], tuple[str, str, int, Limits, StorageSettings]]:
        """Pickle the settings only: a worker starts with an empty cache."""
        return type(self), (self.input_root, self.run_root, self.cache_bytes, self.limits, self.storage)

    def open_bytes(self, uri: str, max_bytes: int | None = None) -> bytes:
        """The file's bytes. Raises :class:`MediaNotAllowed`, :class:`MediaMissing`, or, where ``max_bytes``
        is given and exceeded, :class:`UndecodableMedia` of kind ``too_large`` before more than that is read; of kind
        ``corrupt`` where a file that was drawn is not what its name says.
        """
        root, relative = self._split(uri)
        data = _read(root, relative, uri, max_bytes)
        if uri.startswith("run:") and sha256_bytes(data) != relative[6:70]:
            raise UndecodableMedia("corrupt", f"{uri} has changed since it was written: run again to have it anew")
        return data

    def kind_of(self, uri: str) -> Literal["image", "video"] | None:
        """The kind of the file by its first bytes (:func:`sniff_kind`); raises as :meth:`open_bytes` does."""
        return sniff_kind(_read(*self._split(uri), uri, None, HEAD_BYTES))

    def pixels(self, uri: str) -> Pixels:
        """The decoded still as read-only ``(H, W, 3)`` uint8 RGB, upright; copy it to draw on it.

        Raises :class:`UndecodableMedia` besides what :meth:`open_bytes` raises.
        """
        return self._pixels.of(uri, lambda: self._decoded(uri))

    def _decoded(self, uri: str) -> Pixels:
        pixels = decode_image(self.open_bytes(uri, self.limits.max_bytes), self.limits).pixels
        pixels.flags.writeable = False
        return pixels

    def write_drawn(self, data: bytes, ext: str) -> str:
        """Write a drawn image under its own SHA-256; returns its ``run:`` uri. Where it stands already nothing is done;
        a file of this name that holds anything else is replaced.

        A reader sees the whole file or none, however many writers there are. ``ext`` has no dot.
        """
        if not _EXTENSION.fullmatch(ext):
            raise ValueError(f"not a plain lower-case extension: {ext!r}")
        relative = f"media/{sha256_bytes(data)}.{ext}"
        _write(place(self.run_root, self.storage) / relative, data)
        return f"run:{relative}"

    def _split(self, uri: str) -> tuple[Place, str]:
        """Root and checked relative path of a uri."""
        scheme, _, relative = uri.partition(":")
        if scheme == "run" and _DRAWN.fullmatch(relative):
            return place(self.run_root, self.storage), relative
        if scheme != "input":
            raise MediaNotAllowed(f"not a media uri: {uri!r}")
        parts = relative.split("/")
        odd = any(c in "\0\\" or "\ud800" <= c <= "\udfff" for c in relative) or "://" in relative
        drive = len(relative) > 1 and relative[1] == ":"
        if odd or drive or not relative or parts[0] == "" or ".." in parts:
            remedy = "download the file, and " if "://" in relative else ""
            raise MediaNotAllowed(
                f"not a path inside the data folder: {uri!r} ({remedy}give the path from the folder of the records)"
            )
        return place(self.input_root, self.storage), relative


def _missing(uri: str) -> MediaMissing:
    where = " (input: is the folder of the records)" if uri.startswith("input:") else ""
    return MediaMissing(f"no such file: {uri!r}{where}")


def _leaves(uri: str) -> MediaNotAllowed:
    remedy = "copy its target there, or name the folder that holds both as --input"
    return MediaNotAllowed(f"{uri!r} is a link that leaves the data folder: {remedy}")


def _read(root: Place, relative: str, uri: str, max_bytes: int | None, head_bytes: int = -1) -> bytes:
    if isinstance(root, RemotePath):
        return _read_remote(root / relative, uri, max_bytes, head_bytes)
    try:
        path = (root / relative).resolve()
        if uri.startswith("input:") and not _is_inside(path, root.resolve()):
            raise _leaves(uri)
        if path.is_file():  # a pipe or device would block or never end
            _check_bytes(path.stat().st_size, max_bytes)
            with path.open("rb") as stream:
                return stream.read(head_bytes)
    except RuntimeError as error:  # how Python before 3.13 reports a ring of links
        raise _missing(uri) from error
    except MediaNotAllowed:
        raise
    except PermissionError as error:
        raise MediaNotAllowed(f"no permission to read {uri!r}") from error
    except OSError as error:
        if error.errno in _NOT_READABLE:
            raise MediaNotAllowed(f"{uri!r} cannot be read: {error.strerror}") from error
        if error.errno not in _NO_SUCH_FILE:
            raise
        raise _missing(uri) from error
    raise _missing(uri)


def _is_inside(file: Path, root: Path) -> bool:
    """Whether the file is in the folder, or in the ``blobs`` of the data set of which the folder is a snapshot, or a
    part of one: ``blobs/<hash>`` beside ``snapshots/<revision>/``, as the Hub's cache has them. Both are resolved.
    """
    if file.is_relative_to(root):
        return True
    snapshots = [folder.parent for folder in (root, *root.parents) if folder.parent.name == "snapshots"]
    return any(file.parent == folder.parent / "blobs" for folder in snapshots)


def _read_remote(path: RemotePath, uri: str, max_bytes: int | None, head_bytes: int) -> bytes:
    """One request, also where there is a bound: one byte beyond it says that the file is too large."""
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
        raise UndecodableMedia("too_large", f"{size} bytes, the limit is {max_bytes}")


def _write(path: Place, data: bytes) -> None:
    try:
        if path.stat().st_size == len(data) and path.read_bytes() == data:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)
