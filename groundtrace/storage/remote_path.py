"""Represents an object of ``s3://`` or ``gs://`` as a path, with the methods of ``pathlib.Path`` that a store allows.

A remote path can be pickled together with its settings. It uses the client of the current process
(:mod:`groundtrace.storage.object_store`). An object becomes visible only when it is complete, and no object is ever
renamed. After a write, every read and every listing returns the new state, as S3 and Google Cloud Storage guarantee.
While a store is unreachable, each request is retried for ``[storage].retry_s`` seconds.
"""

import contextlib
import fnmatch
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, TypeVar, overload

from groundtrace.storage.errors import BeyondObjectEnd, ObjectExists, StorageError
from groundtrace.storage.listing import Stat, entries, is_path, stat_of
from groundtrace.storage.object_store import STANDARD, StorageSettings, client, persistently, writing
from groundtrace.storage.object_stream import ObjectStream

T = TypeVar("T")

READ_AHEAD_BYTES: Final = 4 * 2**20
"""The number of bytes that one request reads from a remote file, when the file is read as a stream."""
SMALL_BYTES: Final = 8 * 2**20
"""The largest size in bytes of a file that is uploaded in one request."""
_PATTERN_SIGNS: Final = frozenset("*?[")


@dataclass(frozen=True)
class RemotePath:
    """Represents an object or a folder in a store.

    ``url`` is the URL, e.g. ``s3://bucket/run/run.json``, without a slash at the end. ``storage`` holds the settings of
    the connection. A store has no real folders: a folder is the set of objects whose URLs begin with ``url`` and a
    slash.

    Methods raise FileNotFoundError if the object does not exist, :class:`StorageError` for an error that the user can
    correct, and :class:`StoreUnavailable` if a store stays unreachable. To make a remote path, use
    :func:`groundtrace.storage.places.place`, which checks the name.
    """

    url: str
    storage: StorageSettings = field(default=STANDARD, repr=False)

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, relative: "str | PurePosixPath") -> "RemotePath":
        parts = [part for part in str(relative).split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ValueError(f"{relative} is not a path below {self.url}: use a relative path without ..")
        return replace(self, url="/".join([self.url, *parts]))

    def __lt__(self, other: "RemotePath") -> bool:
        return self.url < other.url

    @property
    def name(self) -> str:
        """Return the part of the URL after the last slash, e.g. ``run.json``."""
        return self._pure.name

    @property
    def suffix(self) -> str:
        """Return the file extension with its dot, such as ``.json``; "" if the name has no extension."""
        return self._pure.suffix

    @property
    def stem(self) -> str:
        """Return the name without its file extension, e.g. ``run`` for ``run.json``."""
        return self._pure.stem

    @property
    def parent(self) -> "RemotePath":
        """Return the folder that contains this path. If this path is a bucket, the result is the bucket itself."""
        scheme, _, rest = self.url.partition("://")
        return replace(self, url=f"{scheme}://{rest.rpartition('/')[0] or rest}")

    @property
    def parents(self) -> "list[RemotePath]":
        """Return all folders that contain this path, from the nearest folder up to the bucket."""
        found, each = [], self
        while each.parent != each:
            each = each.parent
            found.append(each)
        return found

    @property
    def bucket(self) -> "RemotePath":
        """Return the bucket that contains this path. If this path is a bucket, the result is the bucket itself."""
        return self.parents[-1] if self.parents else self

    def relative_to(self, folder: "RemotePath") -> PurePosixPath:
        """Return this path relative to ``folder``. Raises ValueError if ``folder`` does not contain this path."""
        return self._pure.relative_to(folder._pure)

    def with_name(self, name: str) -> "RemotePath":
        """Return the path of the file ``name`` in the same folder as this path."""
        return self.parent / name

    def resolve(self) -> "RemotePath":
        """Return this path unchanged, because a store has no symbolic links."""
        return self

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing, because a store has no real folders. The arguments are those of ``pathlib.Path.mkdir``."""

    def stat(self) -> Stat:
        """Return the metadata of the object at this path: its size, the time of its last write, and its version.

        Raises FileNotFoundError if the object does not exist, or if this path is a folder.
        """
        info = self._info()
        if info["type"] != "file":
            raise FileNotFoundError(
                f"{self.url} is a folder, but a file is needed: give the URL of a file in this folder"
            )
        return stat_of(info)

    def exists(self) -> bool:
        """Return whether this path is an object or a folder with at least one object."""
        return self._kind() != ""

    def is_file(self) -> bool:
        """Return whether this path is an object, i.e. a file in the store."""
        return self._kind() == "file"

    def is_dir(self) -> bool:
        """Return whether this path is a folder: there are objects below it, and it is not an object itself."""
        return self._kind() == "directory"

    def is_symlink(self) -> bool:
        """Return False, because a store has no symbolic links."""
        return False

    def read_bytes(self, start: int | None = None, end: int | None = None) -> bytes:
        """Return the object's bytes from offset ``start`` (included) to offset ``end`` (not included).

        If ``start`` is None, the bytes begin at the start of the object. If ``end`` is None, they go to its end. If the
        object is shorter than ``end``, fewer bytes are returned. If it is shorter than ``start``, the result is empty.
        """
        try:
            return self._do(lambda store: store.cat_file(self.url, start=start, end=end))
        except BeyondObjectEnd:
            return b""

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return the object's content as text, decoded with ``encoding``."""
        return self.read_bytes().decode(encoding)

    @overload
    def open(self, mode: Literal["rb"]) -> io.BufferedReader: ...

    @overload
    def open(
        self, mode: Literal["r"] = "r", encoding: str | None = None, newline: str | None = None
    ) -> io.TextIOWrapper: ...

    def open(
        self, mode: str = "r", encoding: str | None = None, newline: str | None = None
    ) -> io.BufferedReader | io.TextIOWrapper:
        """Return a stream that reads the object: text for the mode "r", bytes for "rb".

        The stream can seek, and requests :data:`READ_AHEAD_BYTES` at a time. ``encoding`` (None means UTF-8) and
        ``newline`` have the same meaning as in the built-in ``open``. Raises FileNotFoundError if there is no object,
        and ValueError for any other mode. To write an object, use :func:`groundtrace.storage.places.written_to`.
        """
        if mode not in ("r", "rb"):
            raise ValueError(
                f"a remote file can be opened only with the mode 'r' or 'rb', not {mode!r}: to write it, use written_to"
            )
        stream: Any = io.BufferedReader(ObjectStream(self.url, self.stat().st_size, self.read_bytes), READ_AHEAD_BYTES)
        return stream if mode == "rb" else io.TextIOWrapper(stream, encoding or "utf-8", newline=newline)

    def write_bytes(self, data: bytes) -> int:
        """Replace the object by ``data``, and return the number of bytes written.

        A process that reads the object at the same time gets either the old object or the complete new one.
        """
        self._put(lambda store: store.pipe_file(self.url, data, **writing(self._scheme, data)))
        return len(data)

    def write_text(self, text: str, encoding: str = "utf-8") -> int:
        """Replace the object by the text, encoded with ``encoding``; return the number of bytes written."""
        return self.write_bytes(text.encode(encoding))

    def create(self, data: bytes) -> bool:
        """Create the object with the bytes ``data``, unless an object with this name exists.

        An existing object is never changed; the store itself ensures this. The result is True if this call created the
        object, or if the existing object holds exactly the bytes ``data``. The second case occurs if a request is sent
        twice: the first attempt created the object, and the second attempt finds it. The result is False if the
        existing object holds other bytes.

        If several processes create the same object at the same time, exactly one of them creates it. Each process
        should write bytes that no other process writes, so that only the process that created the object gets True.
        """
        try:
            self._put(lambda store: store.pipe_file(self.url, data, mode="create", **writing(self._scheme, data)))
        except ObjectExists:
            return self.read_bytes() == data
        return True

    def upload(self, file: Path) -> None:
        """Replace the object by the content of the local file ``file``.

        A file that is larger than :data:`SMALL_BYTES` is sent in parts. Raises OSError if the object is incomplete
        afterwards.
        """
        if file.stat().st_size <= SMALL_BYTES:
            self.write_bytes(file.read_bytes())
            return
        self._put(lambda store: store.put_file(str(file), self.url))
        if (here := file.stat().st_size) != (there := self.stat().st_size):
            raise OSError(
                f"{self.url} was not uploaded completely (the store holds {there} of {here} bytes): run the same "
                "command again"
            )

    def copy_to(self, other: "RemotePath") -> None:
        """Copy the object to the path ``other`` in the same store.

        The store makes the copy, so nothing is downloaded.
        """
        self._do(lambda store: store.cp_file(self.url, other.url))

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object. A missing object is not an error.

        ``missing_ok`` has no effect, because S3 does not report whether the object existed.
        """
        with contextlib.suppress(FileNotFoundError):
            self._do(lambda store: store.rm_file(self.url))

    def iterdir(self) -> "Iterator[RemotePath]":
        """Return an iterator over the objects and folders directly in this folder, sorted by URL."""
        return iter(sorted(self.listed()))

    def listed(self) -> "Mapping[RemotePath, Stat | None]":
        """Return the content of this folder, without the content of its subfolders.

        The result maps each object to its metadata, and each subfolder to None. It is empty if the folder does not
        exist.
        """
        listed = self._do(lambda store: entries(lambda: store.ls(self.url, detail=True)))
        found = ((self._sibling(entry), entry) for entry in listed if is_path(entry["name"].rstrip("/")))
        return {
            path: stat_of(entry) if entry["type"] == "file" else None
            for path, entry in found
            if path.url.startswith(f"{self.url}/")
        }

    def walked(self) -> "Mapping[RemotePath, Stat]":
        """Return all objects below this path, at any depth, each with its metadata, sorted by URL.

        An object is left out if its name cannot be used as a path, such as ``a//b`` or ``a/../b``. The empty object
        ``a/``, by which a store's web console represents a folder, is left out for the same reason.
        """
        listed = self._do(lambda store: entries(lambda: store.find(self.url, detail=True).values()))
        found = {self._sibling(entry): stat_of(entry) for entry in listed if is_path(entry["name"])}
        return {path: found[path] for path in sorted(found) if path.url.startswith(f"{self.url}/")}

    def glob(self, pattern: str) -> "Iterator[RemotePath]":
        """Yield the paths below this path that match the pattern, e.g. ``sft/*.parquet``.

        The pattern is compared with a path relative to this path. For example, below ``s3://bucket/run``, the pattern
        ``sft/*.parquet`` matches ``s3://bucket/run/sft/1.parquet``, whose relative path is ``sft/1.parquet``. The
        comparison is made segment by segment (slashes separate the segments). ``**`` matches any number of segments.
        The pattern ``**`` and all patterns with a slash yield only objects. All other patterns, such as ``*``, yield
        the objects and the folders directly below this path.
        """
        if "/" not in pattern and pattern != "**":
            yield from (path for path in self.iterdir() if fnmatch.fnmatchcase(path.name, pattern))
            return
        parts = pattern.split("/")
        fixed = next((at for at, part in enumerate(parts) if _PATTERN_SIGNS & set(part)), len(parts) - 1)
        below = self / "/".join(parts[:fixed])
        for path in below.walked():
            if _matches(path.relative_to(self).parts, tuple(parts)):
                yield path

    def rglob(self, pattern: str) -> "Iterator[RemotePath]":
        """Yield the objects at any depth below this path that match the pattern, as ``glob("**/" + pattern)`` does."""
        return self.glob(f"**/{pattern}")

    @property
    def _scheme(self) -> str:
        return self.url.partition("://")[0]

    @property
    def _pure(self) -> PurePosixPath:
        return PurePosixPath(self.url.partition("://")[2])

    def _sibling(self, entry: Mapping[str, Any]) -> "RemotePath":
        return replace(self, url=f"{self._scheme}://{entry['name'].rstrip('/')}")

    def _info(self) -> Mapping[str, Any]:
        return self._do(lambda store: store.info(self.url))

    def _kind(self) -> str:
        try:
            return str(self._info()["type"])
        except FileNotFoundError:
            return ""

    def _put(self, call: Callable[[Any], Any]) -> None:
        """Write the object with ``call``, a function that gets this process's client of the store.

        While the store is unreachable, the call is retried (:meth:`_do`). Raises StorageError if the bucket does not
        exist.
        """
        try:
            self._do(call)
        except FileNotFoundError as error:
            name = self.bucket.url.partition("://")[2]
            raise StorageError(f"{self.url}: there is no bucket {name}: create it, or correct the name") from error

    def _do(self, call: Callable[[Any], T]) -> T:
        """Return the result of ``call``, a function that gets this process's client of the store.

        While the store is unreachable, the call is retried for ``[storage].retry_s`` seconds.
        """
        store = client(self._scheme, self.storage)
        return persistently(self.url, self.storage.retry_s, lambda: call(store))


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[at:], pattern[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
