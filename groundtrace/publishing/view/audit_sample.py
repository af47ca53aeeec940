"""Draws the random sample of an audit, and reads and writes ``RUN/reviews/audit.json``, which holds it.

In an audit, a person judges a sample of a run's traces, which are reasonings with answers
(:mod:`groundtrace.publishing.view.audit`).
"""

import hashlib
import json
import random
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groundtrace.publishing.reading import InspectError
from groundtrace.publishing.view.audit_estimate import KEPT
from groundtrace.schemas.safe_files import read_json, refuse_links
from groundtrace.schemas.text import counted, utc_now
from groundtrace.storage.files import write_atomically

SAMPLE = Path("reviews") / "audit.json"
MIN_PER_REASON = 5
SEED = 0


def draw(strata: Mapping[str, Sequence[str]], count: int, seed: int = SEED) -> dict[str, list[str]]:
    """Draw a random sample of about ``count`` ids. Return the drawn ids of each stratum.

    A stratum is a group of records: the kept (SFT) rows, or the records that were rejected for the same reason.
    ``strata`` holds all ids of each stratum by its name. The same ``seed`` gives the same sample.

    About half of the sample are rejected records (all of them, if the run has fewer). Each reason of rejection has a
    share of this half in proportion to its number of records, rounded down, but at least :data:`MIN_PER_REASON` ids (or
    all, if it has fewer). The rest of the sample are kept rows, at least ``count // 2`` and at least one (or all, if
    the run has fewer). So the sample has more than ``count`` ids if there are many reasons.

    If the run has fewer than ``count // 2`` kept rows, more rejected records are drawn. With ``count`` 100 and 20 kept
    rows, for example, about 80 rejected records are drawn. If all kept rows are drawn, the sample can have fewer than
    ``count`` ids: the run may have too few rejected records, and the shares are rounded down.
    """
    generator = random.Random(seed)
    rejected = {name: sorted(ids) for name, ids in sorted(strata.items()) if name != KEPT and ids}
    kept = sorted(strata.get(KEPT, ()))
    total = sum(map(len, rejected.values()))
    half = min(total, max(count // 2, count - len(kept)))
    least_kept = max(count // 2, 1)
    sizes = {
        name: min(len(ids), max(MIN_PER_REASON, half * len(ids) // max(total, 1))) for name, ids in rejected.items()
    }
    sizes |= {KEPT: min(len(kept), max(count - sum(sizes.values()), least_kept))}
    return {name: generator.sample(kept if name == KEPT else rejected[name], size) for name, size in sizes.items()}


def draw_ids(strata: Mapping[str, Sequence[str]], count: int) -> list[str]:
    """Return the ids of the sample that :func:`draw` draws, in random order. The same arguments give the same list.

    The order is random, so that a reviewer does not learn from it to which stratum (group of records) an id belongs.
    """
    ids = [each for ids in draw(strata, count).values() for each in ids]
    random.Random(SEED).shuffle(ids)
    return ids


def strata_digest(strata: Mapping[str, str]) -> str:
    """Return a SHA-256 that identifies how the records of a run are divided into strata (groups of records).

    ``strata`` maps the id of each record to its stratum. The SHA-256 is computed over these pairs, sorted by id.
    """
    return hashlib.sha256(json.dumps(sorted(strata.items())).encode()).hexdigest()


def read_sample(run: Path) -> Mapping[str, Any] | None:
    """Return the content of the run's ``audit.json``, which holds the sample of an audit.

    In an audit, a person judges a sample of a run's records. The content is the ids of the sample, the requested number
    of ids, the seed, the time of the draw, the random name of the sample, and the digest of the strata (groups of
    records) from which the ids were drawn. Return None if there is no such file. Raises InspectError if the file is
    damaged, and :class:`groundtrace.schemas.safe_files.UnsafeFile` if it or its folder is a link, or if it is a pipe.
    """
    file = run / SAMPLE
    refuse_links(run, str(SAMPLE))
    try:
        found = read_json(file)
        _check(found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InspectError(
            f"{file} is damaged ({type(error).__name__}): move it away to draw another sample"
        ) from error
    return found


def _check(found: Any) -> None:
    """Raise an error if the content of an ``audit.json`` does not have the form that :func:`write_sample` writes."""
    ids, count = found["ids"], found["count"]
    if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids) or len(set(ids)) < len(ids):
        raise TypeError("ids")
    if type(count) is not int or count < 1:
        raise TypeError("count")
    if not isinstance(found["at"], str) or not isinstance(found.get("name", ""), str):
        raise TypeError("at")
    if not isinstance(found.get("strata_sha256", ""), str):
        raise TypeError("strata_sha256")


def write_sample(run: Path, count: int, ids: Sequence[str], strata_sha256: str) -> None:
    """Write the ids of a sample to the run's ``audit.json``.

    ``run`` is the run folder. ``count`` is the requested size of the sample, and ``ids`` are the ids that were drawn.
    ``strata_sha256`` is the digest of all strata (groups of records). The file is written once, before the first
    judgement. Raises InspectError if it cannot be written, and :class:`groundtrace.schemas.safe_files.UnsafeFile` if it
    or its folder is a link.
    """
    refuse_links(run, str(SAMPLE))
    try:
        (run / SAMPLE).parent.mkdir(exist_ok=True)
        named = {"name": secrets.token_hex(8), "at": utc_now()}  # judgements carry the name: a clock may be set back
        fields = {"count": count, "seed": SEED, **named, "strata_sha256": strata_sha256, "ids": ids}
        write_atomically(run / SAMPLE, json.dumps(fields, indent=1))
    except OSError as error:
        raise InspectError(
            f"{run / SAMPLE} cannot be written ({error.strerror or error}): make the run folder writable, and run "
            "the command again"
        ) from error


def size_note(count: int, drawn: int, kept: int) -> str:
    """Return a text on why a sample has ``drawn`` rows instead of ``count``; "" if both numbers are equal.

    ``count`` is the requested number, and ``kept`` is the number of the run's kept rows with a trace. A sample is
    smaller than ``count`` only if it has all of these kept rows (:func:`draw`). So the text then states that the run
    has only ``kept`` of them. A sample is larger than ``count`` because of the minimum number of rows for each reason
    of rejection. The text then states this minimum.
    """
    if drawn == count:
        return ""
    why = f"the run has only {counted(kept, 'kept row')} with a trace"
    if drawn > count:
        why = f"at least {MIN_PER_REASON} of each reason of rejection are drawn, or all of a reason with fewer"
    return f"the sample has {counted(drawn, 'row')} instead of {count}: {why}"
