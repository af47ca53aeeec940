"""Finds the run folder (for the outputs) that ``--output`` names, and the reply cache (the stored replies of models)
that ``--cache`` names.
"""

from pathlib import Path

from groundtrace.pipelines.running.plan.local_run import STAGED, LocalRun, RunFolderError
from groundtrace.pipelines.running.plan.options import OptionError
from groundtrace.pipelines.running.plan.store_run import LEDGER, MEDIA, PREVIOUS, StoreRun
from groundtrace.publishing.reading import FAILED_PAGE
from groundtrace.schemas.paths import real_path
from groundtrace.schemas.text import excerpt
from groundtrace.stages.sources.base import RUN_MARKER
from groundtrace.storage.lease import FOLDER as LEASE
from groundtrace.storage.object_store import SCHEMES
from groundtrace.storage.places import STANDARD, RemotePath, StorageSettings, is_remote, joined, place, storage_of

FILE = "replies.sqlite"
OF_THE_RUN = (*STAGED, RUN_MARKER, FAILED_PAGE, LEDGER, MEDIA, PREVIOUS, LEASE, ".staging", ".lock")
"""The names of the files and folders in a run folder that each run rewrites or removes.

A reply cache must not be in a folder with one of these names, because the next run would destroy the cache.
"""


def named_folder(name: str, storage: StorageSettings = STANDARD) -> LocalRun:
    """Return an object that manages the run folder which ``--output`` names. The folder may be on a disk or in a store
    (remote storage such as S3).

    ``name`` is its path or URL. ``storage`` are the settings of an object store. Raises
    :class:`groundtrace.pipelines.running.plan.local_run.RunFolderError` for a name that cannot be a path, and for a URL
    of a folder that is not a run folder. Raises :class:`groundtrace.storage.places.StorageError` for a URL that cannot
    be used.
    """
    target = place(name, storage)
    return StoreRun(target) if isinstance(target, RemotePath) else LocalRun(_root_on_disk(name))


def _root_on_disk(name: str) -> Path:
    """Return the path of a run folder on a disk.

    Raises :class:`RunFolderError` if ``name`` is empty, is a wrong URL, or cannot be a path on this disk.
    """
    scheme, colon, rest = name.partition(":")
    if not name.strip():
        raise RunFolderError("--output is empty: name a folder")
    if colon and scheme in SCHEMES:
        raise RunFolderError(
            f"{name} is not a URL: write {scheme}://{rest.lstrip('/')}, or ./{name} for a local folder"
        )
    try:
        name.encode()  # run.json and the card name the folder, in UTF-8
        root = real_path(name)
        root.exists()
    except UnicodeEncodeError as error:
        raise RunFolderError(
            f"cannot write {name!a}, because the name is not UTF-8: choose another --output"
        ) from error
    except OSError as error:
        raise RunFolderError(f"cannot write {excerpt(name)} ({error.strerror}): choose another --output") from error
    return root


def cache_path(named: str | None, folder: LocalRun) -> str:
    """Return the path or URL of the file that holds the reply cache (the stored replies of models).

    ``named`` is the value of ``--cache``: the folder of the file, or its URL. None means that the option is left out;
    the file is then in the run folder ``folder``.

    Raises :class:`groundtrace.pipelines.running.plan.options.OptionError` if ``named`` is empty, or is a part of the
    run folder that each run rewrites, such as its subfolder ``sft``. Also raises OptionError if ``named`` is a run
    folder on this machine that has a reply cache: the user should name its subfolder ``cache`` instead. Raises
    :class:`groundtrace.storage.places.StorageError` for an invalid URL.
    """
    if named is None:
        return folder.cache_path
    if not named.strip():
        raise OptionError("--cache is empty: name a folder, or leave out --cache to keep the replies in the run folder")
    root = folder.place
    cache = place(named, storage_of(root)) if is_remote(named) else real_path(named)
    if root in cache.parents:
        inside = str(cache)[len(str(root)) + 1 :].split("/")[0]
        if inside in OF_THE_RUN:
            raise OptionError(
                f"--cache {named} cannot be used, because each run replaces {root}/{inside}, and the cache in it would "
                f"be lost: name another folder, such as {root}/cache"
            )
    if isinstance(cache, Path) and not (cache / FILE).exists() and (cache / "cache" / FILE).exists():
        raise OptionError(
            f"--cache {named} is a run folder, not a cache: write --cache {joined(named, 'cache')} instead"
        )
    return f"{named.rstrip('/')}/{FILE}" if is_remote(named) else f"{cache}/{FILE}"
