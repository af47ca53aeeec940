"""Repeats the stages of a run for one record in a process of its own, for the page of ``beam view``.

The process executes the run's pipeline, which may be a user's code, so that neither its errors nor its memory concern
the server.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundtrace.publishing.reading import InspectError

TIMEOUT_S = 300
_MODULE = "groundtrace.pipelines.running.replay"


class Replays:
    """Replays records of the run in the folder ``run``, one at a time.

    ``pipeline`` is the name of a bundled pipeline, or the path of a pipeline's file.
    """

    def __init__(self, run: Path, pipeline: str) -> None:
        self._run, self._pipeline = run, pipeline
        self._one = asyncio.Lock()

    async def of(self, record_id: str) -> dict[str, Any]:
        """Return what the stages did with a record.

        The result has the fields of :class:`groundtrace.pipelines.running.replay.Replayed`. Raises InspectError if the
        replay fails, or takes longer than :data:`TIMEOUT_S` seconds.
        """
        async with self._one:
            return await _printed([sys.executable, "-P", "-m", _MODULE, str(self._run), record_id, self._pipeline])


async def _printed(command: Sequence[str]) -> dict[str, Any]:
    """Run a command, and return the JSON object that it prints. Raises InspectError with the error that it prints."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**26,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
    except TimeoutError as error:
        raise InspectError(
            f"the replay took longer than {TIMEOUT_S} s: run the pipeline on this record alone"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        answer = json.loads(out.decode("utf-8", "replace").strip().rpartition("\n")[2])
    except ValueError as error:
        said = (err.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
        raise InspectError(
            f"the replay failed ({said[:300]}): see whether `beam run` works with the same input"
        ) from error
    if "error" in answer:
        raise InspectError(f"the record cannot be replayed: {answer['error']}")
    return answer
