"""Raises the limit of open files of this process if it is too low. The process needs open files for the connections to
its endpoints (model servers), and for the reply caches of other runs, from which it copies replies.

Each concurrent request has a connection, and a connection is an open file. Many systems allow a process 1,024 open
files.
"""

import contextlib
import logging
import resource
from collections.abc import Mapping

from groundtrace.inference.endpoint import kind_of
from groundtrace.inference.settings import EndpointSettings
from groundtrace.schemas.errors import UserError

OTHER_FILES = 256
"""The number of files that a run opens in addition to its connections to endpoints: media, shards, the reply cache, and
the connections of Beam.
"""

FILES_OF_CACHE = 3
"""The number of files that a process opens for a reply cache of another run: its database, and two files of SQLite."""
MIN_CACHES = 8
"""The number of caches of other runs that a process may open, however low its limit of open files is."""

MIN_FILES_OF_WORKERS = 64
"""The smallest limit of open files with which this process can use worker processes.

If the limit is lower, gRPC waits without end for a connection between this process and its worker processes.
"""


class TooFewFiles(UserError):
    """Raised if the system does not allow this process to open as many files as its connections or its worker processes
    need.
    """


_log = logging.getLogger(__name__)


def allow_connections(endpoints: Mapping[str, EndpointSettings]) -> None:
    """Raise the limit of open files of this process, so that each endpoint can have its largest number of concurrent
    requests. ``endpoints`` holds the settings of the endpoints by name.

    Nothing is changed if the limit is high enough, or if all models run in this process. The limit also applies to the
    processes that this process starts later. Raises :class:`TooFewFiles` if the system does not allow the higher limit.
    """
    most = _connections(endpoints)
    if not most:
        return
    needed = sum(most.values()) + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError) as error:
        largest = max(most, key=most.__getitem__)
        raise TooFewFiles(
            f"{sum(most.values())} requests in flight need {needed} open files, but this process may open only {soft}: "
            f"raise the limit (`ulimit -n {needed}`, as root if necessary), or reduce "
            f"endpoints.{largest}.max_concurrency, which is {most[largest]}"
        ) from error


def allow_caches(caches: int, endpoints: Mapping[str, EndpointSettings]) -> int:
    """Raise the limit of open files of this process as far as ``caches`` open reply caches need it, and return how many
    caches can be open at the same time. The result is less than ``caches`` if the system does not allow the limit. But
    at least :data:`MIN_CACHES` caches (or all, if there are fewer) can be open.

    ``endpoints`` holds the settings of the endpoints by name. Files for their connections are reserved before those for
    the caches. If not all caches can be open, a warning states what the user can do.
    """
    first = sum(_connections(endpoints).values()) + OTHER_FILES
    needed = first + caches * FILES_OF_CACHE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if caches <= MIN_CACHES or soft == resource.RLIM_INFINITY or soft >= needed:
        return caches
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    fitting = min(caches, max(MIN_CACHES, (soft - first) // FILES_OF_CACHE))
    if fitting < caches:
        _log.warning(
            "only %d of the %d caches of other runs are searched for replies, because this process may open only %d "
            "files: raise the limit (`ulimit -n %d`, as root if necessary)", fitting, caches, soft, needed
        )  # fmt: skip
    return fitting


def _connections(endpoints: Mapping[str, EndpointSettings]) -> dict[str, int]:
    """Return the maximum number of connections of each endpoint that has connections, by the endpoint's name."""
    return {name: each.max_concurrency for name, each in endpoints.items() if not kind_of(each.kind).in_process}


def check_for_workers() -> None:
    """Raise :class:`TooFewFiles` if this process's limit of open files is too low for worker processes on this machine.
    The limit must be at least :data:`MIN_FILES_OF_WORKERS`.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MIN_FILES_OF_WORKERS:
        raise TooFewFiles(
            f"worker processes need {MIN_FILES_OF_WORKERS} open files, but this process may open only {soft}: raise "
            f"the limit (`ulimit -n {MIN_FILES_OF_WORKERS}`), or leave out --direct_running_mode"
        )
