"""A run folder in a store: worked on in a folder of this machine, and delivered when the run has succeeded.

Where the runner's workers are on this machine too, a run's staging, its drawn images and its notes lie on its disk.
Workers elsewhere write all of that into the store: a job's files into ``jobs/<job>/``, of which the driver brings here
what it needs. What must outlast the machine goes to the store at once: replies into ``cache/``
(:mod:`groundtrace.inference.cache.shared`), and what was paid into ``ledger/``, each every few seconds. At the end the
old outputs are copied to ``previous/`` where they are to be kept, the new ones are put under their names, and
``run.json`` is written last: while it is not there, the folder holds no finished run.
"""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from groundtrace.pipelines.running.errors import RunPaused
from groundtrace.pipelines.running.freshness import FRESH
from groundtrace.pipelines.running.remote_ledger import LEDGER, RemoteLedger
from groundtrace.publishing.figures import FAILED_PAGE
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.lease import FOLDER as LEASE_FOLDER
from groundtrace.schemas.lease import Lease, Lost, leased
from groundtrace.schemas.remote_path import RemotePath
from groundtrace.schemas.storage import StoreUnavailable, check_bucket
from groundtrace.stages.sources.base import RUN_MARKER

SETS = ("sft", "rl", "rejected")
MEDIA, PREVIOUS, JOBS, SUMMARY = "media", "previous", "jobs", "run.json"
_STAYS = (*SETS, MEDIA, PREVIOUS, JOBS, LEDGER, "cache", "logs", LEASE_FOLDER)
"""What of a run folder in a store is not fetched with the rest to work on it."""
_SHARED = (LEASE_FOLDER, LEDGER, JOBS, MEDIA, "cache", "logs")
"""What several processes may write: other runs with the cache, and workers elsewhere whose driver was killed."""
T = TypeVar("T")


class DeliveryError(UserError):
    """The folder in the store cannot be a run's."""


class Delivery:
    """The folder ``target`` in a store, and ``root``, the one on this machine that stands for it while a run lasts.

    ``root`` is a temporary folder, which goes with this object. Raises :class:`DeliveryError` for a target that holds
    something else than a run, and :class:`groundtrace.schemas.storage.StorageError`. Wherever the store stays away,
    :class:`groundtrace.pipelines.running.errors.RunPaused` is raised.
    """

    def __init__(self, target: RemotePath) -> None:
        self.target = target
        self._folder = tempfile.TemporaryDirectory(prefix="groundtrace-run-", ignore_cleanup_errors=True)
        self.root = Path(self._folder.name).resolve() / target.name
        self._ledger = RemoteLedger(target, self.root)
        self._jobs: list[RemotePath] = []
        self._made: dict[str, RemotePath] = {}
        self._lease: Lease | None = None
        self._found: dict[str, str] = {}
        with _resumable():
            self._fetch()

    def _fetch(self) -> None:
        target = self.target
        check_bucket(target)
        found = _versions(target)
        self._found = _own(found)
        alone = (LEASE_FOLDER, LEDGER, JOBS, "cache", FAILED_PAGE)
        others = [name for name in found if name.split("/")[0] not in alone]
        if others and RUN_MARKER not in others:
            raise DeliveryError(f"{target} is not empty and not a run folder: choose another --output")
        for name in found:
            if name.split("/")[0] not in _STAYS:
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                (self.root / name).write_bytes((target / name).read_bytes())
        self._ledger.bring()

    def __str__(self) -> str:
        return str(self.target)

    @property
    def cache_path(self) -> str:
        """The reply cache of the run, in the store."""
        return f"{self.target}/cache/replies.sqlite"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for this process, and keep in it what the run notes of its costs and of its failure.

        Raises :class:`groundtrace.schemas.lease.Held` where another process holds it, and :class:`DeliveryError` where
        one wrote it after this process had looked.
        """
        with _resumable(), leased(self.target) as self._lease:
            if _own(_versions(self.target)) != self._found:
                raise DeliveryError(f"another process wrote {self} while this one began: run the same command again")
            self._ledger.bring()
            self._ledger.begin()
            try:
                yield
            finally:
                self._ledger.end()
                with contextlib.suppress(Lost):  # what stands there now is another's
                    self._lease.check()
                    self._ledger.send()
                    self._send_failure()
                for folder in self._jobs:
                    _remove(folder)

    def bring_notes(self) -> None:
        """Bring here what workers elsewhere have noted."""
        with _resumable():
            self._ledger.bring()

    def job(self, name: str) -> RemotePath:
        """A folder in the store for a job's files, which are gone when the folder is not held any more."""
        self._jobs.append(self.target / JOBS / name)
        return self._jobs[-1]

    def made(self, outputs: Mapping[str, RemotePath]) -> None:
        """Say which outputs stand in the store already, and where: they are copied there to the names that they get."""
        self._made.update(outputs)

    def begin(self) -> None:
        """Say in the store which input the folder belongs to, unless it is another's until this run has succeeded, and
        since when its replies count.
        """
        with _resumable():
            _remove(self.target / JOBS)  # of a driver that was killed
            if not (self.target / RUN_MARKER).exists():
                (self.target / RUN_MARKER).upload(self.root / RUN_MARKER)
            if (self.root / FRESH).exists():  # before anything is asked for under it
                (self.target / FRESH).upload(self.root / FRESH)
            (self.target / FAILED_PAGE).unlink(missing_ok=True)

    def deliver(self, keep_previous: bool) -> None:
        """Put the outputs of a run that succeeded in the place of the old ones; see the module.

        Raises :class:`groundtrace.schemas.lease.Lost` where the folder is not this process's any more; nothing is
        changed then.
        """
        with _resumable():
            self._deliver(keep_previous)

    def _deliver(self, keep_previous: bool) -> None:
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
        gone = {name for name in old - new if "/" in name or name in self._found}  # else it came meanwhile: the user's
        for name in self._mine(sorted(gone - {SUMMARY})):
            (self.target / name).unlink(missing_ok=True)
        self._lease.check()
        (self.target / SUMMARY).upload(self.root / SUMMARY)

    def _mine(self, items: Iterable[T]) -> Iterator[T]:
        """The items, each while the folder is still this process's: one that was stopped for a minute between two of
        them may wake up in the run of another. Raises :class:`groundtrace.schemas.lease.Lost`.
        """
        assert self._lease is not None
        for item in items:
            self._lease.check()
            yield item

    def _outputs_here(self) -> set[str]:
        """The files of the outputs, by their paths in the folder."""
        found = (path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        return {name for name in found if _is_output(name)}

    def _outputs_there(self) -> set[str]:
        return {name for path in self.target.walked() if _is_output(name := str(path.relative_to(self.target)))}

    def _put(self, name: str) -> None:
        """Put an output under its name in the store."""
        if name in self._made:
            self._made[name].copy_to(self.target / name)
        else:
            (self.target / name).upload(self.root / name)

    def _send_failure(self) -> None:
        if (self.root / FAILED_PAGE).is_file():
            (self.target / FAILED_PAGE).upload(self.root / FAILED_PAGE)


def _versions(folder: RemotePath) -> dict[str, str]:
    """What stands in the folder, and what changes whenever it does."""
    return {str(path.relative_to(folder)): stat.version for path, stat in folder.walked().items()}


def _own(found: Mapping[str, str]) -> dict[str, str]:
    """What of it the holder of the folder alone writes."""
    return {name: found[name] for name in found if name.split("/")[0] not in _SHARED}


def _remove(folder: RemotePath) -> None:
    for path in folder.walked():
        path.unlink()


@contextlib.contextmanager
def _resumable() -> Iterator[None]:
    """A store that stays away pauses the run, which the same command goes on with."""
    try:
        yield
    except StoreUnavailable as error:
        raise RunPaused(str(error)) from error


def _is_output(name: str) -> bool:
    """Whether a file of a run folder, by its path in it, is of what a run writes anew and puts in place."""
    top, _, below = name.partition("/")
    if top in SETS:
        return below.endswith(".parquet")
    return not below and not top.startswith(".") and top != FAILED_PAGE
