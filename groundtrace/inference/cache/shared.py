"""Stores the reply cache on object storage or a network file system, so that several machines can share it. Each
machine has a local copy of the cache.

SQLite needs a local disk. So each machine has a :class:`groundtrace.inference.cache.replies.ReplyCache` in a local
folder. Every few seconds the machine uploads the new lines of its log (one reply each) to the shared location as a
segment: a file that is never changed, ``segments/<UTC time>-<uuid>.jsonl.zz``. It also imports the segments of other
machines. If a process dies, no reply is lost: its replies are in the local log, and the next process on that machine
uploads them. If a machine is lost with its disk, only two kinds of replies can be lost: those of the last seconds
(:data:`groundtrace.storage.uploads.EVERY_S`) and those of the upload in progress.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from groundtrace.inference.cache.folders import local_folder_of, shared_location
from groundtrace.inference.cache.log import encode_body, encode_line
from groundtrace.inference.cache.replies import LogEntry, ReplyCache
from groundtrace.inference.cache.shared_files import CHUNK_BYTES, SegmentFiles, TornSegment
from groundtrace.storage.files import write_atomically
from groundtrace.storage.places import STANDARD, StorageSettings
from groundtrace.storage.uploads import Uploads

SEGMENT_BYTES = 64 * 2**20
"""The approximate size of a segment, as the number of bytes of the log before compression."""

_log = logging.getLogger(__name__)


class SegmentStore(ReplyCache):
    """Stores replies by key in a cache that several machines share. It is safe to use from several threads and
    processes.

    ``location`` is the shared folder or URL. ``local_folder`` is the folder of this machine's copy; all processes on
    one machine use the same folder. ``storage`` holds the settings of the object storage. The constructor imports all
    segments (files with the replies that the machines have uploaded), and raises OSError if the location cannot be
    reached.

    ``uploads`` is a background thread that calls :meth:`synchronize` regularly. If it is None, new replies are uploaded
    only by the constructor and by :meth:`close`. ``torn`` is the number of damaged segments, and ``foreign`` the number
    of files at the location that are not segments.

    If two machines send the same request before the next upload, each machine uses its own reply at first. Later the
    older reply replaces the newer one on both machines.
    """

    def __init__(
        self, location: str, local_folder: str, uploads: Uploads | None = None, storage: StorageSettings = STANDARD
    ) -> None:
        self.torn = self.foreign = 0
        self._files = SegmentFiles(location, storage)
        self._folder = Path(local_folder)
        self._torn: dict[str, int] = {}
        super().__init__(str(self._folder / "replies.sqlite"))
        try:
            self.synchronize()
        except BaseException:
            super().close()
            raise
        if uploads is not None:
            uploads.add(f"synchronise the reply cache with {location}", self.synchronize)

    def close(self) -> None:
        """Upload new replies, and close the files. Raises OSError if the upload fails. In this case the replies are
        still on this machine, and a later process uploads them.

        Close ``uploads`` (the background thread) before you call this method.
        """
        if self.is_closed:
            return
        try:
            with self._state() as own:
                self._upload(own)
        finally:
            super().close()

    def synchronize(self) -> None:
        """Upload the new replies of this machine, and import the new replies of other machines. Raises OSError if the
        shared location cannot be reached.
        """
        with self._state() as own:
            self._upload(own)
            self._download(own)
        self.take_in()

    @contextmanager
    def _state(self) -> Iterator["_Own"]:
        """Yield the record of this machine's uploads, and write the record to its file at the end. Meanwhile no other
        process on this machine can use the record."""
        with FileLock(self._folder / ".segments.lock"):
            own = _Own.read(self._folder)
            try:
                yield own
            finally:
                own.write(self._folder)

    def _upload(self, own: "_Own") -> None:
        while parts := own.new_parts(self._folder / "log"):
            own.segments.add(self._files.store(_bytes_of(parts), self._folder))
            own.uploaded.update((log.name, end) for log, _, end in parts)

    def _download(self, own: "_Own") -> None:
        sizes, self.foreign = self._files.sizes_bytes()
        own.segments.intersection_update(sizes)
        self._torn = {name: size_bytes for name, size_bytes in self._torn.items() if name in sizes}
        for name, size_bytes in sizes.items():
            target = self._folder / "log" / name.removesuffix(".zz")
            if name in own.segments or target.exists() or self._torn.get(name) == size_bytes:
                continue
            try:
                self._files.fetch(name, target)
                self._torn.pop(name, None)
            except TornSegment:
                self._torn[name] = size_bytes
            except FileNotFoundError:
                _log.info("segment %s was merged meanwhile", name)
        self.torn = len(self._torn)


class _Own:
    """Holds the record of which replies this machine has uploaded to the shared cache.

    ``uploaded`` is the number of uploaded bytes of each log (a file with replies on this machine), by the name of the
    log. ``segments`` are the names of the files that this machine has written to the shared location. If the record is
    lost, all replies are uploaded again.
    """

    def __init__(self, uploaded: dict[str, int], segments: set[str]) -> None:
        self.uploaded = uploaded
        self.segments = segments

    @classmethod
    def read(cls, folder: Path) -> "_Own":
        try:
            fields = json.loads((folder / "uploaded.json").read_bytes())
            return cls({str(name): int(end) for name, end in fields["logs"].items()}, set(map(str, fields["segments"])))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return cls({}, set())

    def write(self, folder: Path) -> None:
        text = json.dumps({"logs": self.uploaded, "segments": sorted(self.segments)})
        write_atomically(folder / "uploaded.json", text)

    def new_parts(self, log_folder: Path) -> list[tuple[Path, int, int]]:
        """Return the parts of the logs in ``log_folder`` that are not uploaded yet. Each element is a log, the offset
        of its first byte to upload, and the offset after its last byte to upload. Each part consists of complete lines.
        The total size of the parts is about the size of one segment (:data:`SEGMENT_BYTES`) or less.
        """
        parts, left_bytes = [], SEGMENT_BYTES
        for log in sorted(log_folder.glob("*-*-*.jsonl")):  # the name of a downloaded segment has only one hyphen
            size_bytes, start = log.stat().st_size, self.uploaded.get(log.name, 0)
            if size_bytes < start:  # the log was cut, after its lines were uploaded
                self.uploaded[log.name] = size_bytes
            elif size_bytes > start and left_bytes > 0:
                end = _last_line_end(log, start, min(size_bytes, start + left_bytes))
                left_bytes -= end - start
                parts += [(log, start, end)] if end > start else []
        return parts


def _last_line_end(log: Path, start: int, end: int) -> int:
    """Return the offset at which the next upload of the file ``log`` must end, so that it has only complete lines. The
    upload begins at the offset ``start`` and should end at the offset ``end`` or before. All offsets are in bytes.

    The result is the end of the last line that is complete at ``end``. If the first line is longer than ``end -
    start``, the result is the end of this line, after ``end``. If the first line is still incomplete, the result is
    ``start``.
    """
    with log.open("rb") as stream:
        stream.seek(start)
        data = stream.read(end - start)
        if b"\n" in data:
            return start + data.rindex(b"\n") + 1
        while data := stream.read(CHUNK_BYTES):
            if b"\n" in data:
                return stream.tell() - len(data) + data.index(b"\n") + 1
    return start


def _bytes_of(parts: Iterable[tuple[Path, int, int]]) -> Iterator[bytes]:
    for log, start, end in parts:
        with log.open("rb") as stream:
            stream.seek(start)
            while start < end and (data := stream.read(min(CHUNK_BYTES, end - start))):
                yield data
                start += len(data)


@contextmanager
def gathered(files: SegmentFiles, scratch: Path | None = None) -> Iterator[tuple[ReplyCache, list[str], int]]:
    """Yield a temporary cache that contains the replies of all segments. Segments are the files through which machines
    share a reply cache. The temporary files are deleted when the ``with`` statement ends.

    ``files`` gives access to the segments. ``scratch`` is the folder in which the temporary folder is created; None
    means the system's temporary folder. The yielded tuple has three values: the cache, the names of the undamaged
    segments, and the number of unusable segments. A segment is unusable if it is damaged, or if another machine has
    deleted it in the meantime.
    """
    with tempfile.TemporaryDirectory(prefix=".segments-", dir=scratch) as folder:
        names, torn = [], 0
        for name in files.sizes_bytes()[0]:
            try:
                files.fetch(name, Path(folder) / "log" / name.removesuffix(".zz"))
                names.append(name)
            except (TornSegment, FileNotFoundError):
                torn += 1
        cache = ReplyCache(str(Path(folder) / "replies.sqlite"))
        try:
            yield cache, names, torn
        finally:
            cache.close()


def merge(
    files: SegmentFiles, scratch: Path | None = None, keep: Callable[[LogEntry], bool] = lambda _: True
) -> tuple[int, int]:
    """Merge all undamaged segments into one new segment, and delete the old ones. Segments are the files through which
    machines share a reply cache.

    ``files`` gives access to the segments. The new segment holds only the replies for which ``keep`` returns True. It
    is written before the old segments are deleted, so other machines may read and write in the meantime. ``scratch`` is
    the folder for temporary files; None means the system's temporary folder.

    Returns the number of merged segments and the number of dropped replies. If there are fewer than two segments and no
    reply to drop, nothing is changed, and both numbers are 0.
    """
    with gathered(files, scratch) as (cache, names, _):
        dropped = sum(not keep(logged) for logged in cache.entries())
        if not dropped and len(names) < 2:
            return 0, 0
        kept = (logged for logged in cache.entries() if keep(logged))
        lines = (encode_line(logged, encode_body(logged.entry.completion)) for logged in kept)
        files.store(lines, scratch or Path(tempfile.gettempdir()))
        files.delete(names)
    return len(names), dropped


def prune_segments(
    location: str, local_folder: str, keep: Callable[[LogEntry], bool], storage: StorageSettings = STANDARD
) -> int:
    """Delete replies from a shared cache and from this machine's copy of it. A reply is deleted if ``keep`` returns
    False for it.

    ``location`` is the shared folder or URL with the segments (the files that hold the shared replies).
    ``local_folder`` is the folder of this machine's copy. ``storage`` holds the settings of the object storage. The
    number of deleted replies is counted once in the segments and once in the copy; the larger of the two numbers is
    returned.

    The copies on other machines are not changed, so these machines still use the deleted replies. Raises
    :class:`groundtrace.inference.cache.replies.CacheInUse` if a process on this machine has the cache open.
    """
    folder = Path(local_folder)
    cache = ReplyCache(str(folder / "replies.sqlite"), exclusive=True)
    try:
        here = cache.rewrite(keep)
        dropped = merge(SegmentFiles(location, storage), folder, keep)[1]
    finally:
        cache.close()
    return max(here, dropped)


def open_cache(path: str, storage: StorageSettings = STANDARD, uploads: Uploads | None = None) -> ReplyCache:
    """Open the reply cache ``path``, and return it. ``path`` is ":memory:", or the path or URL of a file such as
    ``replies.sqlite``.

    A path on a local disk is a SQLite file. If ``path`` is on a network file system or is a URL, the file itself is
    never created. Instead its folder holds segments: files with replies, which several machines share
    (:class:`SegmentStore`). ``storage`` holds the settings of the object storage. ``uploads`` is the background thread
    that regularly uploads the new replies of this machine and downloads those of other machines. If ``uploads`` is
    None, replies are downloaded only when the cache is opened, and uploaded only when it is opened or closed.
    """
    location = shared_location(path)
    if location is None:
        return ReplyCache(path)
    return SegmentStore(location, str(local_folder_of(location, storage)), uploads, storage)
