"""Read by Python when it starts, in workers whose PYTHONPATH names this folder: they can be held within a stage.

A file in the folder HOLDS, named as a stage, holds each worker at its first call of that stage's work beyond as many
as the file says, until the file goes. A worker that is held says so by a file ``<stage>-<process>``.
"""

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import groundtrace.stages.ingest_records
import groundtrace.stages.split_by_media_group
import groundtrace.stages.write_shards

FOLDER = Path(os.environ["HOLDS"])
LOOK_S = 0.02


def held(stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The work of a stage, which waits where it is held."""
    calls = 0

    @functools.wraps(work)
    def waiting(*given: Any, **named: Any) -> Any:
        nonlocal calls
        file = FOLDER / stage
        if file.exists():
            calls += 1
            if calls > int(file.read_text() or 0):
                (FOLDER / f"{stage}-{os.getpid()}").touch()
                while file.exists():
                    time.sleep(LOOK_S)
        return work(*given, **named)

    return waiting


for stage, module, name in (
    ("ingest", groundtrace.stages.ingest_records, "check_medium"),
    ("split", groundtrace.stages.split_by_media_group, "split_side"),
    ("write", groundtrace.stages.write_shards, "write_shard"),
):
    setattr(module, name, held(stage, getattr(module, name)))
