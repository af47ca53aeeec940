"""Stores a record of each step of a loop in OUT/steps: its identity, its times and its last exit code."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from groundtrace.pipelines.loop.steps import RECORDS, Step
from groundtrace.storage.files import write_atomically


@dataclass(frozen=True)
class StepRecord:
    """Holds the record of a step.

    Attributes:
        identity: the digest of the step and of all that it depends on.
        begun, finished: the time of the first start of the command, and the time at which the step was finished ("":
        not finished).
        wall_s: the duration of the command in seconds, summed over all attempts except those that were killed with
        their loop.
        exit_code: the exit code of the last attempt; None if it has not ended, or was killed with its loop.
    """

    identity: str
    begun: str
    finished: str = ""
    wall_s: float = 0.0
    exit_code: int | None = None


def read_record(out: Path, name: str) -> StepRecord | None:
    """Return the record of a step; None if the step has not begun, or if its record is damaged."""
    try:
        return StepRecord(**json.loads(_path(out, name).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_record(out: Path, name: str, record: StepRecord) -> None:
    """Write the record of a step atomically."""
    _path(out, name).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(_path(out, name), json.dumps(asdict(record), indent=1) + "\n")


def is_done(step: Step, identity: str, out: Path) -> bool:
    """Return whether the step was finished with this identity and its result exists."""
    record = read_record(out, step.name)
    return record is not None and record.identity == identity and bool(record.finished) and step.result.exists()


def _path(out: Path, name: str) -> Path:
    return out / RECORDS / f"{name}.json"
