"""Repeats the stages (pipeline steps) of a run for one record in a separate process, for the page of ``beam view``.

The process executes the run's pipeline, which may be a user's code. The process is separate so that errors and high
memory use of this code do not affect the server. The temporary files of the process are in a folder that is removed
when the process has ended.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from groundtrace.publishing.reading import InspectError

ANSWER = "answer.json"
"""The name of the file, in the temporary folder, into which the process writes its answer."""
ENDING_S = 5.0
TIMEOUT_S = 300
_MODULE = "groundtrace.pipelines.running.replay"
_KEPT = ("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TZ", "USER", "XDG_CACHE_HOME")
_KEPT_GROUPS = ("LC_", "PYTHON")
"""Prefixes of names: every replay gets the environment variables with these prefixes, and those in ``_KEPT``."""


def environment_of(pipeline: str) -> dict[str, str]:
    """Return the environment variables of the process that replays a record.

    ``pipeline`` is the path of the pipeline's file that the user named; "" if the user named none. If it is "", the run
    may be from another person. For this reason the environment then has no secrets, and the process does not use the
    Hugging Face Hub.
    """
    if pipeline:
        return dict(os.environ)
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_GROUPS)}
    return kept | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


class Replays:
    """Replays records of the run in the folder ``run``, one at a time. A replay repeats the stages (pipeline steps) for
    one record.

    ``pipeline`` is the path of the pipeline's file; "" for the bundled pipeline that the run names. ``cache`` is the
    folder of the reply cache; None for the cache in the run folder.
    """

    def __init__(self, run: Path, pipeline: str = "", cache: Path | None = None) -> None:
        self._run, self._pipeline, self._cache = run, pipeline, cache
        self._one = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._is_closed = False

    async def of(self, record_id: str) -> dict[str, Any]:
        """Return what the stages (pipeline steps) did with a record.

        The result has the fields of :class:`groundtrace.pipelines.running.replay.Replayed`. Raises InspectError if the
        replay fails, or takes longer than :data:`TIMEOUT_S` seconds. If the caller is cancelled, the process ends.
        """
        async with self._one:
            with tempfile.TemporaryDirectory(prefix="groundtrace-replay-", ignore_cleanup_errors=True) as folder:
                return await self._answer(Path(folder), record_id)

    async def _answer(self, folder: Path, record_id: str) -> dict[str, Any]:
        """Run the process that replays a record, and return what the stages (pipeline steps) did with the record.

        ``folder`` is the folder for the temporary files of the process; the process writes its answer into it.
        """
        if self._is_closed:
            raise InspectError(
                "the pipeline cannot be repeated for this record, because `beam view` is stopping: start `beam "
                "view` again"
            )
        asked = json.dumps(
            {
                "run": str(self._run),
                "id": record_id,
                "pipeline": self._pipeline,
                "cache": str(self._cache or ""),
                "view": os.getpid(),
                "folder": str(folder),
            }
        )
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", _MODULE),
            env=environment_of(self._pipeline) | {"TMPDIR": str(folder)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, err = await asyncio.wait_for(process.communicate(asked.encode()), TIMEOUT_S)
        except TimeoutError as error:
            raise InspectError(
                f"the replay took longer than {TIMEOUT_S} s, so it was stopped: try another record"
            ) from error
        finally:
            await asyncio.shield(self.stop())
        try:
            answer = json.loads((folder / ANSWER).read_text("utf-8"))
        except (OSError, ValueError) as error:
            last_line = (err.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
            raise InspectError(
                f"the replay failed ({last_line[:300]}): check whether `beam run` works with the same input"
            ) from error
        if "error" in answer:
            raise InspectError(f"the pipeline cannot be repeated for this record, because {answer['error']}")
        return answer

    async def close(self) -> None:
        """End the process, if one is running. After this call, no other process can be started."""
        self._is_closed = True
        await self.stop()

    async def stop(self) -> None:
        """End the process, if one is running, and wait for its end."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), ENDING_S)
        except TimeoutError:
            process.kill()
            await process.wait()
