"""The path of a run's reply cache, checked against the files that the run itself replaces."""

from groundtrace.pipelines.running.delivery import LEDGER, MEDIA, PREVIOUS
from groundtrace.pipelines.running.run_folder import STAGED, RunFolder, real_path
from groundtrace.pipelines.running.runner import OptionError
from groundtrace.publishing.figures import FAILED_PAGE
from groundtrace.stages.sources.base import RUN_MARKER
from groundtrace.storage.lease import FOLDER as LEASE
from groundtrace.storage.places import is_remote, place, storage_of

FILE = "replies.sqlite"
OF_THE_RUN = (*STAGED, RUN_MARKER, FAILED_PAGE, LEDGER, MEDIA, PREVIOUS, LEASE, ".staging", ".lock")
"""Names in a run folder that each run rewrites or removes."""


def cache_path(named: str | None, folder: RunFolder) -> str:
    """The reply cache's file: in the run folder, in the folder ``named``, or at a remote location.

    Raises :class:`groundtrace.pipelines.running.runner.OptionError` for a place that a run would delete, and
    :class:`groundtrace.storage.places.StorageError` for an invalid URL.
    """
    if not named:
        return folder.delivery.cache_path if folder.delivery else str(folder.cache_path)
    root = folder.delivery.target if folder.delivery else folder.root
    cache = place(named, storage_of(root)) if is_remote(named) else real_path(named)
    if root in cache.parents:
        inside = str(cache)[len(str(root)) + 1 :].split("/")[0]
        if inside in OF_THE_RUN:
            raise OptionError(
                f"--cache {named}: each run rewrites {inside} in its folder, so the replies there would be lost: name "
                f"another folder, such as {root}/cache"
            )
    return f"{named.rstrip('/')}/{FILE}" if is_remote(named) else f"{cache}/{FILE}"
