"""Finds the reply caches (stored replies of models) of other runs, from which a run can copy replies."""

import contextlib
from collections.abc import Sequence

from groundtrace.inference.settings import Neighbour
from groundtrace.pipelines.running.plan.freshness import FreshnessError, fresh_since
from groundtrace.pipelines.running.plan.plan import Plan
from groundtrace.schemas.safe_files import UnsafeFile
from groundtrace.schemas.text import counted, storable

MAX_NEIGHBOURS = 100
"""The maximum number of other runs whose caches a run searches, those with the newest caches.

A process opens at most three files for each cache, in about 1 ms. A call whose replies are in none of the caches needs
20 to 100 µs for each cache. These times were measured with 100 caches of 300 replies each, on a busy machine.
"""


def neighbours_of(plan: Plan, since: str) -> tuple[Neighbour, ...]:
    """Return the reply caches of all other runs that hold replies for this run, the newest cache first.

    The other runs have the same input, and their run folders have the same parent folder as that of this run. ``since``
    is the time that ``--fresh`` set (:func:`fresh_since`); "" if there is none. The result is () if ``since`` is not
    "", if the user names a cache with ``--cache``, or if not all workers run on this machine.
    """
    if plan.arguments.cache or not plan.is_local or since:
        return ()
    found = []
    for folder in plan.folder.beside(plan.input.fingerprint):
        with contextlib.suppress(FreshnessError, UnsafeFile):  # it is unknown which of its replies may be used
            found.append(Neighbour(storable(folder.root.name), folder.cache_path, fresh_since(folder.root)))
    return tuple(found)


def unsearched_line(neighbours: Sequence[Neighbour]) -> list[str]:
    """Return a line that names the number of caches that a run does not search; [] if it searches all of them.

    A cache holds stored replies of models. ``neighbours`` are the caches of all other runs that hold replies for the
    run.
    """
    older = len(neighbours) - MAX_NEIGHBOURS
    if older <= 0:
        return []
    return [
        f"{counted(older, 'older run')} beside this one {'is' if older == 1 else 'are'} not searched for replies, only "
        f"the newest {MAX_NEIGHBOURS}: move run folders that you need no longer to another folder, or add "
        "--cache FOLDER to all runs so that they share one cache"
    ]
