"""Manages a run folder (the output folder of a pipeline's runs): its lock, its input, and the replacement of old
outputs by new outputs in one step.

Besides the outputs, a run folder RUN holds these files:
RUN/input.json names the input to which the folder belongs.
RUN/.lock is locked by the process that writes into the folder.
RUN/.staging/ holds the new outputs while they are written.
RUN/previous/ holds old outputs. A new run moves them there if they have rows and differ from its own outputs.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path

from groundtrace.pipelines.running.plan.freshness import begin_fresh
from groundtrace.publishing.reading import FAILED_PAGE
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import UnsafeFile, own_file, read_json, refuse_links
from groundtrace.stages.sources.base import RUN_MARKER
from groundtrace.storage.files import is_unfinished, locked, write_atomically
from groundtrace.storage.places import Place, RemotePath

_FORMER_ARTIFACTS = ["rubrics.json"]  # of runs whose run.json does not name them
SETS = ("sft", "rl", "rejected")
_COMMITTING = _REPLACED, _, _KEEP = ".replaced", ".moved", ".keep"
"""Names of a folder and two empty files in the staging folder, which exist while new outputs replace the old outputs.

The folder ``.replaced`` holds the old outputs. The file ``.moved`` marks that all old outputs were moved into
``.replaced``. The file ``.keep`` marks that the old outputs must be kept, in RUN/previous.
"""
_WRITTEN = (".lock", ".staging", "previous", "media", "ledger", "cache", "logs")
"""The names of a file and of folders in a run folder that must not be links, because a run writes or deletes files
through them.

Files and folders with other names may be links: a run replaces or removes the link itself, and its target stays.
"""
STAGED = (*SETS, "config.toml", "README.md", "report.html", "run.json")
"""The names of the outputs that every run may write. A recipe may add artifacts; their names are in ``run.json``."""


class RunFolderError(UserError):
    """Raised if the folder that ``--output`` names cannot be used as the run folder (for the outputs of this run). The
    message states the reason and the remedy.
    """


class LocalRun:
    """Manages a run folder (the output folder of a pipeline's runs) on a disk. ``root`` is its path.

    The subclass :class:`groundtrace.pipelines.running.plan.store_run.StoreRun` is for a run folder in a store (remote
    storage such as S3). In the subclass, ``root`` is the path of a working copy on this machine.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def place(self) -> Place:
        """Return the path of the run folder on a disk, or its location in a store (remote storage such as S3)."""
        return self.root

    @property
    def staging(self) -> Path:
        """Return the subfolder ``.staging`` of the run folder, in which new outputs are written before they replace the
        old ones.
        """
        return self.root / ".staging"

    @property
    def previous(self) -> Path:
        """Return the subfolder ``previous`` of the run folder, which holds older outputs.

        A new run moves the old outputs of the run folder into this subfolder, if they have rows and differ from the new
        outputs.
        """
        return self.root / "previous"

    @property
    def name(self) -> str:
        """Return the path or URL of the run folder as text, for messages to the user."""
        return str(self.place)

    @property
    def cache_path(self) -> str:
        """Return the path or URL of the file in which this run stores the replies of models (its reply cache)."""
        return f"{self.place}/cache/replies.sqlite"

    def beside(self, fingerprint: str) -> "tuple[LocalRun, ...]":
        """Return the folders of other runs next to this run's folder that have the same input and a reply cache (stored
        replies of models).

        The folders with the newest caches are first in the result.

        The run can use the replies in the caches of these folders. For example, it can use the replies that an earlier
        preview of the same input has paid for. ``fingerprint`` is a digest of the input's content.
        """
        found: list[tuple[float, LocalRun]] = []
        for marker in self.root.parent.glob(f"*/{RUN_MARKER}"):
            folder = LocalRun(marker.parent)
            # suppressed if it is not a run folder, or unreadable
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError, UnsafeFile):
                if not self._has_files_of(folder) and _fingerprint_of(folder.root) == fingerprint:
                    found.append((_cache_changed_s(folder), folder))
        return tuple(folder for _, folder in sorted(found, key=itemgetter(0), reverse=True))

    def _has_files_of(self, other: "LocalRun") -> bool:
        """Return whether another run folder is this one, or has the same cache file, because of a link.

        Such a cache must not be opened twice in one process: when one of the two is closed, the operating system
        releases the locks of the other one, which SQLite needs.
        """
        pairs = (self.root, other.root), (Path(self.cache_path), Path(other.cache_path))
        return any(own.exists() and others.exists() and own.samefile(others) for own, others in pairs)

    def prepare(self, input_name: str, fingerprint: str, resume: bool, fresh: bool = False) -> None:
        """Prepare the run folder for a run: write ``input.json``, and remove unfinished outputs of an interrupted run.

        The file ``input.json`` states to which input the folder belongs.

        Args:
            input_name: The name of the input, for messages.
            fingerprint: A digest of the input's content.
            resume: Whether a folder that belongs to another input is refused. If such a folder is accepted, it keeps
                its old ``input.json`` and its old outputs until :meth:`commit`. Until then, the new ``input.json`` is
                in the staging folder.
            fresh: Whether to ignore stored replies of models from before this command. If it is False, cached replies
                are used, even those of another input, because the cache finds them by the content of their requests.

        Raises :class:`RunFolderError` if the folder cannot be used or written, and
        :class:`groundtrace.pipelines.running.plan.freshness.FreshnessError` if the file ``.fresh.json`` in the run
        folder is damaged.
        """
        self.check(fingerprint, resume)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._finish_commit()
            claim = json.dumps({"input": input_name, "fingerprint": fingerprint}, indent=1)
            others = self._is_others(fingerprint)
            if not others:
                write_atomically(self.root / RUN_MARKER, claim)
            shutil.rmtree(self.staging, ignore_errors=True)
            self.staging.mkdir()
            (self.root / FAILED_PAGE).unlink(missing_ok=True)
            if others:
                write_atomically(self.staging / RUN_MARKER, claim)
            if fresh:
                begin_fresh(self.root)
        except OSError as error:
            raise RunFolderError(
                f"cannot write {self.root} ({error.strerror or error}): choose another --output"
            ) from error

    def clear_staging(self) -> None:
        """Remove the files in the staging folder, which holds unfinished outputs, except the file that names the input.

        The finished outputs of an earlier run stay in the run folder.
        """
        for path in self.staging.iterdir():
            if path.name != RUN_MARKER:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def check(self, fingerprint: str, resume: bool) -> None:
        """Raise RunFolderError if the folder that ``--output`` names cannot be used for a run. Nothing is changed.

        ``fingerprint`` is a digest of the input's content. A run folder, an empty folder and a missing folder are
        accepted; any other folder is refused. If ``resume`` is True, a run folder that belongs to another input is
        refused as well. Raises :class:`groundtrace.schemas.safe_files.UnsafeFile` if a file or folder that a run writes
        into, such as ``.staging``, is a link. The reason is that another person may have made the run folder. Through
        such a link, a run would write and delete files outside the run folder.
        """
        marker = self.root / RUN_MARKER
        if self.root.exists() and not self.root.is_dir():
            raise RunFolderError(f"{self.root} is a file, but a run needs a folder here: choose another --output")
        refuse_links(self.root, *_WRITTEN)
        if self.staging.is_dir():
            refuse_links(self.staging, *(path.name for path in self.staging.iterdir()))
        for folder in (self.staging, self.root / "media", self.root / "ledger"):
            if folder.exists() and not folder.is_dir():
                raise RunFolderError(f"{folder} is a file, but a run needs a folder here: move the file away")
        for file in (self.root / ".lock", self.root / FAILED_PAGE):
            if file.is_dir() and not file.is_symlink():
                raise RunFolderError(f"{file} is a folder, but a run needs a file here: move the folder away")
        if not marker.exists():
            if self.root.exists() and any(not _is_ours(entry.name) for entry in self.root.iterdir()):
                raise RunFolderError(f"{self.root} is not empty and not a run folder: choose another --output")
            return
        try:
            known = read_json(own_file(self.root, RUN_MARKER))
            name, found = str(known["input"]), str(known["fingerprint"])
        except (ValueError, TypeError, KeyError) as error:
            raise RunFolderError(
                f"{self.name} is not a run folder, because its {RUN_MARKER} is damaged or from another program: choose "
                "another --output"
            ) from error
        if found != fingerprint and resume:
            raise RunFolderError(
                f"the run folder {self.name} was made from other data, namely {name} with the digest {found[:12]}: "
                "choose another --output, or add --resume=never to replace the outputs in this folder (replies in the "
                "cache are kept)"
            )

    def _is_others(self, fingerprint: str) -> bool:
        """Return whether the run folder belongs to another input: its ``input.json`` has another digest of the input.

        ``fingerprint`` is the digest of this run's input. Without an ``input.json``, the result is False.
        """
        marker = self.root / RUN_MARKER
        return marker.exists() and _fingerprint_of(self.root) != fingerprint

    def _outputs(self) -> list[str]:
        """Return the names of those outputs (files and folders of a finished run) that are in the run folder.

        The artifacts, i.e. the further outputs that ``run.json`` names, are first. ``run.json`` is last.
        """
        file = self.root / "run.json"
        try:
            summary = read_json(file if file.exists() else self.staging / _REPLACED / file.name)
            artifacts = [str(name) for name in summary.get("artifacts", _FORMER_ARTIFACTS)]
        except (OSError, ValueError, AttributeError, UnsafeFile):
            artifacts = _FORMER_ARTIFACTS
        found = [name for name in artifacts if _is_artifact(name) and (self.root / name).is_file()]
        return [*found, *(name for name in STAGED if (self.root / name).exists())]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run folder while the body of the ``with`` statement runs, so that only this process writes into it.

        If another process holds the lock, raises :class:`RunFolderError`, or :class:`groundtrace.storage.lease.Held`
        for a folder in a store (remote storage such as S3).
        """
        with locked(self.root, RunFolderError):
            yield

    def bring_notes(self) -> None:
        """Download the notes that workers on other machines wrote, with the cost of each of their requests.

        The notes are in a run folder in a store (remote storage such as S3). For a run folder on a disk, this method
        does nothing.
        """

    def seen_by_workers(self, path: Path, elsewhere: bool) -> str:
        """Return the path or URL that worker processes use for ``path``, a path in this run folder.

        ``elsewhere`` is True if the workers are on other machines.
        """
        return str(self.place / path.relative_to(self.root).as_posix() if elsewhere else path)

    def remote_job(self, name: str) -> RemotePath | None:
        """Return a remote folder for the files that workers on other machines write in one Beam job.

        ``name`` is the name of the job. The result is None for a run folder on a disk. For a run folder in a store
        (remote storage such as S3), the result is a folder in the store, which is removed when the run folder is
        unlocked.
        """
        return None

    def register_made(self, outputs: Mapping[str, RemotePath]) -> None:
        """Remember which outputs workers have already written into a store, so that :meth:`commit` need not upload
        them.

        ``outputs`` maps the final name of each output to its present path in the store (remote storage such as S3). For
        a run folder on a disk, this method does nothing.
        """

    def commit(self, keep_previous: bool = False) -> None:
        """Replace the old outputs of the run folder with the new ones, which are in its subfolder ``.staging``.

        ``run.json`` is replaced last, because it marks a complete run. If ``keep_previous`` is True, the old outputs
        are kept in the subfolder ``previous``. If the process is killed meanwhile, the next :meth:`prepare` finishes
        the commit. At any time, the disk holds all outputs of the old run or of the new run.
        """
        if keep_previous:
            (self.staging / _KEEP).touch()
        (self.staging / _REPLACED).mkdir()
        self._finish_commit()

    def _finish_commit(self) -> None:
        """Finish the replacement of the old run's outputs by the new ones, if it was begun.

        The new outputs are moved from the staging folder to the run folder. An earlier process may have begun this.
        """
        replaced, moved, keep = (self.staging / name for name in _COMMITTING)
        if not replaced.is_dir():
            return
        if not moved.exists():
            for name in reversed(self._outputs()):
                (self.root / name).rename(replaced / name)
            moved.touch()
        staged = (path.name for path in self.staging.iterdir() if path.name not in _COMMITTING)
        for name in sorted(staged, key="run.json".__eq__):
            if name not in STAGED:
                (self.root / name).unlink(missing_ok=True)  # an artifact that no run.json names
            (self.staging / name).rename(self.root / name)
        if keep.exists():
            shutil.rmtree(self.previous, ignore_errors=True)
        replaced.rename(self.previous if keep.exists() else self.staging / "old")
        shutil.rmtree(self.staging)


def _is_artifact(name: str) -> bool:
    """Return whether a file may be an artifact (a further output of a run), by its ``name`` in ``run.json``.

    Another person may have written the ``run.json``. So the result is False for a name that leads out of the run
    folder, and for the name of a file or folder of the run that is not an artifact.
    """
    return name == Path(name).name and not name.startswith(".") and name not in (RUN_MARKER, *STAGED)


def _cache_changed_s(folder: LocalRun) -> float:
    """Return the time (Unix time in seconds) of the last change of a run's reply cache, or of its log if the database
    is missing. Raises FileNotFoundError if the run has neither.
    """
    database = Path(folder.cache_path)
    return (database if database.exists() else database.with_name("log")).stat().st_mtime


def _fingerprint_of(root: Path) -> object:
    """Return the digest of a run's input. It is read from ``input.json`` in the run folder ``root``."""
    return read_json(own_file(root, RUN_MARKER))["fingerprint"]


def _is_ours(name: str) -> bool:
    """Return whether a run may write a file of this ``name`` before it writes ``input.json``.

    A folder with any other file, but without ``input.json``, is not accepted as a run folder.
    """
    return name == ".lock" or is_unfinished(name)
