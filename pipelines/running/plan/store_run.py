"""Manages a run folder in a store (remote storage such as S3). A run works in a local folder, which is uploaded when
the run has succeeded.

Workers on this machine write three things on its disk: outputs into the staging folder, drawn images, and notes (the
costs of their requests). Workers on other machines write all three into the store. They write the outputs of a Beam job
into ``jobs/<job>/``, from which the main process downloads the files that it needs.

Data that must survive the loss of this machine is uploaded every few seconds: replies into ``cache/``
(:mod:`groundtrace.inference.cache.shared`), and the costs of requests into ``ledger/``.

At the end of a run, the old outputs are first copied to ``previous/`` if they must be kept. Then the new outputs are
written under their names. ``run.json`` is written last, so a folder without it does not hold a finished run.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from groundtrace.pipelines.running.endings import RunPaused
from groundtrace.pipelines.running.plan.freshness import FRESH
from groundtrace.pipelines.running.plan.local_run import SETS, LocalRun, RunFolderError
from groundtrace.pipelines.running.plan.remote_ledger import LEDGER, RemoteLedger
from groundtrace.publishing.reading import FAILED_PAGE
from groundtrace.stages.sources.base import RUN_MARKER
from groundtrace.storage.lease import FOLDER as LEASE_FOLDER
from groundtrace.storage.lease import Lease, Lost, leased
from groundtrace.storage.places import Place, StoreUnavailable, check_bucket
from groundtrace.storage.remote_path import RemotePath

MEDIA, PREVIOUS, JOBS, SUMMARY = "media", "previous", "jobs", "run.json"
_STAYS = (*SETS, MEDIA, PREVIOUS, JOBS, LEDGER, "cache", "logs", LEASE_FOLDER)
"""Parts of a run folder in a store that are not downloaded into the local folder."""
_SHARED = (LEASE_FOLDER, LEDGER, JOBS, MEDIA, "cache", "logs")
"""Parts of a run folder in a store that several processes may write, not only the process that locked the folder.

Other such processes are e.g. runs that use the same cache, and workers whose driver (main process) was killed.
"""
T = TypeVar("T")


@contextlib.contextmanager
def _resumable() -> Iterator[None]:
    """Raise RunPaused if the store is unreachable in the body of the ``with``, or in the decorated function.

    After RunPaused, the user can resume the run with the same command.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise RunPaused(str(error)) from error


class StoreRun(LocalRun):
    """Manages a run folder in a store (remote storage such as S3). ``target`` is its location in the store.

    ``root`` is its working copy on this machine: a temporary folder, which is removed with this object. The constructor
    raises :class:`groundtrace.pipelines.running.plan.local_run.RunFolderError` if the target is neither empty nor a run
    folder, and :class:`groundtrace.storage.places.StorageError` if the store cannot be used. Methods that use the store
    raise :class:`groundtrace.pipelines.running.endings.RunPaused` if it is unreachable.
    """

    def __init__(self, target: RemotePath) -> None:
        self.target = target
        self._folder = tempfile.TemporaryDirectory(prefix="groundtrace-run-", ignore_cleanup_errors=True)
        super().__init__(Path(self._folder.name).resolve() / target.name)
        self._ledger = RemoteLedger(target, self.root)
        self._jobs: list[RemotePath] = []
        self._made: dict[str, RemotePath] = {}
        self._lease: Lease | None = None
        self._found: dict[str, str] = {}
        self._fetch()

    @_resumable()
    def _fetch(self) -> None:
        target = self.target
        check_bucket(target)
        found = _versions(target)
        self._found = _own(found)
        alone = (LEASE_FOLDER, LEDGER, JOBS, "cache", FAILED_PAGE)
        others = [name for name in found if name.split("/")[0] not in alone]
        if others and RUN_MARKER not in others:
            raise RunFolderError(f"{target} is not empty and not a run folder: choose another --output")
        for name in found:
            if name.split("/")[0] not in _STAYS:
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                (self.root / name).write_bytes((target / name).read_bytes())
        self._ledger.bring()

    @property
    def place(self) -> Place:
        """Return the location of the run folder in the store (remote storage such as S3)."""
        return self.target

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run folder in the store, so that only this process writes into it in the body of the ``with``.

        The lock is a lease, which expires if this process ends. While this process holds the lease, the notes on the
        run's costs are uploaded. If the run fails, failed.html is uploaded at the end. Raises
        :class:`groundtrace.storage.lease.Held` if another process holds the lease. Raises
        :class:`groundtrace.pipelines.running.plan.local_run.RunFolderError` if another process has changed the folder
        since this process read it.
        """
        with _resumable(), leased(self.target) as self._lease:
            if _own(_versions(self.target)) != self._found:
                raise RunFolderError(
                    f"another process wrote into {self.name} while this process started: run the same command again"
                )
            self._ledger.bring()
            self._ledger.begin()
            try:
                with super().locked():
                    yield
            finally:
                self._ledger.end()
                with contextlib.suppress(Lost):  # the folder is another process's
                    self._lease.check()
                    self._ledger.send()
                    self._send_failure()
                for folder in self._jobs:
                    _remove(folder)

    @_resumable()
    def bring_notes(self) -> None:
        """Download the notes: files in which workers on other machines wrote the cost of each of their requests."""
        self._ledger.bring()

    def remote_job(self, name: str) -> RemotePath:
        """Return a folder in the store for the files that workers on other machines write in one Beam job.

        The folder is removed when the run folder is unlocked. ``name`` is the name of the job.
        """
        self._jobs.append(self.target / JOBS / name)
        return self._jobs[-1]

    def register_made(self, outputs: Mapping[str, RemotePath]) -> None:
        """Remember which outputs workers have already written into the store; :meth:`commit` copies them.

        ``outputs`` maps the final name of each output to its present path in the store.
        """
        self._made.update(outputs)

    def prepare(self, input_name: str, fingerprint: str, resume: bool, fresh: bool = False) -> None:
        """Prepare the working copy for a run, and mark the run folder in the store as belonging to the input.

        If the folder in the store belongs to another input, it is marked only when the run has succeeded.

        Args:
            input_name: The name of the input, for messages.
            fingerprint: A digest of the input's content.
            resume: Whether to refuse a folder that belongs to another input.
            fresh: Whether to ignore stored replies of models from before this command.
        """
        super().prepare(input_name, fingerprint, resume, fresh)
        self.begin()

    @_resumable()
    def begin(self) -> None:
        """Write two files into the run folder in the store, and remove files that an earlier run left there.

        ``input.json`` holds the name and the digest of the input. It is written only if the folder does not have it.
        ``.fresh.json`` holds a time: the run uses no stored replies of models that are older. It is written only if
        this run or an earlier run in this folder had ``--fresh``. The removed files are those of the earlier run's
        jobs, and failed.html.
        """
        _remove(self.target / JOBS)  # left by a driver that was killed
        if not (self.target / RUN_MARKER).exists():
            (self.target / RUN_MARKER).upload(self.root / RUN_MARKER)
        if (self.root / FRESH).exists():  # before the first request
            (self.target / FRESH).upload(self.root / FRESH)
        (self.target / FAILED_PAGE).unlink(missing_ok=True)

    def commit(self, keep_previous: bool = False) -> None:
        """Replace the old outputs of the run folder with the new ones, which are in the staging folder.

        This is done first in the working copy on this machine, then in the store. If ``keep_previous`` is True, the old
        outputs are kept in the subfolder ``previous``.
        """
        super().commit(keep_previous)
        self.deliver(keep_previous)

    @_resumable()
    def deliver(self, keep_previous: bool) -> None:
        """Replace the old outputs in the store with the outputs of the working copy on this machine.

        ``run.json`` is written last: a folder without it holds no finished run. If ``keep_previous`` is True, the old
        outputs are kept in the subfolder ``previous``. If this process loses the lock of the folder, the method changes
        nothing more and raises :class:`groundtrace.storage.lease.Lost`.
        """
        assert self._lease is not None, "a folder is delivered while it is held"
        old, new = self._outputs_there(), self._outputs_here()
        media = {path.name for path in (self.target / MEDIA).iterdir()}
        for file in sorted((self.root / MEDIA).glob("*")):
            if file.name not in media and not file.name.startswith("."):
                (self.target / MEDIA / file.name).upload(file)
        if keep_previous and SUMMARY in old:
            for path in self._mine((self.target / PREVIOUS).walked()):
                path.unlink()
            for name in self._mine(sorted(old, key=SUMMARY.__eq__)):
                (self.target / name).copy_to(self.target / PREVIOUS / name)
        self._lease.check()
        (self.target / SUMMARY).unlink(missing_ok=True)
        for name in self._mine(sorted(new - {SUMMARY})):
            self._put(name)
        gone = {name for name in old - new if "/" in name or name in self._found}  # other files are the user's
        for name in self._mine(sorted(gone - {SUMMARY})):
            (self.target / name).unlink(missing_ok=True)
        self._lease.check()
        (self.target / SUMMARY).upload(self.root / SUMMARY)

    def _mine(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items. Before each item, check that this process still holds the lease (lock) of the run folder.

        The lease expires, for example, if this process is suspended for more than a minute. Another process may then
        use the run folder. Without the check, this process would write into the same folder. Raises
        :class:`groundtrace.storage.lease.Lost` if this process no longer holds the lease.
        """
        assert self._lease is not None
        for item in items:
            self._lease.check()
            yield item

    def _outputs_here(self) -> set[str]:
        """Return the paths of the outputs in the working copy on this machine, relative to this copy."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return {name for name in found if _is_output(name)}

    def _outputs_there(self) -> set[str]:
        return {name for path in self.target.walked() if _is_output(name := str(path.relative_to(self.target)))}

    def _put(self, name: str) -> None:
        """Write the output with the final name ``name`` into the run folder in the store.

        If a worker has already written this output to another path in the store, the file is copied from this path.
        Otherwise the file is uploaded from the working copy on this machine.
        """
        if name in self._made:
            self._made[name].copy_to(self.target / name)
        else:
            (self.target / name).upload(self.root / name)

    def _send_failure(self) -> None:
        if (self.root / FAILED_PAGE).is_file():
            (self.target / FAILED_PAGE).upload(self.root / FAILED_PAGE)


def _versions(folder: RemotePath) -> dict[str, str]:
    """Map the path of each file in the folder to the file's version, a text that changes if the content changes."""
    return {str(path.relative_to(folder)): stat.version for path, stat in folder.walked().items()}


def _own(found: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a run folder that only one process at a time may write.

    Only the process with the lease (the lock of the run folder in the store) may write them. The folders and files that
    several processes may write, such as ``cache`` and ``logs``, are left out. ``found`` maps the path of each file to
    its version.
    """
    return {name: found[name] for name in found if name.split("/")[0] not in _SHARED}


def _remove(folder: RemotePath) -> None:
    for path in folder.walked():
        path.unlink()


def _is_output(name: str) -> bool:
    """Return whether the file with the path ``name`` in the run folder is an output that each run replaces."""
    top, _, below = name.partition("/")
    if top in SETS:
        return below.endswith(".parquet")
    return not below and not top.startswith(".") and top != FAILED_PAGE
