"""Stores a record of each step of ``beam loop`` in OUT/steps: its identity, its times and its last exit code.

A step is one command of the loop, such as the SFT. OUT is the output folder of the loop. The identity is a digest of
all that the step depends on; it shows whether the step must be done again.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from groundtrace.pipelines.loop.steps import RECORDS, SFT, Step
from groundtrace.schemas.safe_files import read_json
from groundtrace.storage.files import write_atomically


@dataclass(frozen=True)
class StepRecord:
    """Holds the record of a step of ``beam loop``, such as the SFT. The record is a file in the folder OUT/steps of the
    loop.

    Attributes:
        identity: The digest of the step and of all that it depends on. If the present digest is another one, the step
            must be done again.
        begun: The time of the first start of the command.
        finished: The time at which the step was finished; "" if it is not finished.
        wall_s: The seconds that the command ran, summed over all its starts. Starts that were killed together with the
            loop are not counted.
        exit_code: The exit code of the command's latest start; None if it has not ended, or was killed together with
            the loop.
    """

    identity: str
    begun: str
    finished: str = ""
    wall_s: float = 0.0
    exit_code: int | None = None


def record_path(out: Path, name: str) -> Path:
    """Return the path of the record (times and exit code) of a step of ``beam loop``.

    ``out`` is the folder of the loop. ``name`` is the name of the step, such as ``sft``.
    """
    return out / RECORDS / f"{name}.json"


def read_record(out: Path, name: str) -> StepRecord | None:
    """Return the record (times and exit code) of a step of ``beam loop``; None if the step has not begun, or if its
    record is damaged.

    ``out`` is the folder of the loop. ``name`` is the name of the step, such as ``sft``. Raises UnsafeFile if the
    record is a pipe or a device.
    """
    try:
        return StepRecord(**read_json(record_path(out, name)))
    except (OSError, ValueError, TypeError):
        return None


def write_record(out: Path, name: str, record: StepRecord) -> None:
    """Write the record (times and exit code) of a step into the folder of ``beam loop``, completely or not at all.

    ``out`` is the folder of the loop. ``name`` is the name of the step, such as ``sft``. An earlier record is replaced.
    """
    record_path(out, name).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(record_path(out, name), json.dumps(asdict(record), indent=1) + "\n")


def is_done(step: Step, identity: str, out: Path) -> bool:
    """Return whether ``step``, one command of ``beam loop``, was finished with this identity, and its result exists.

    Then the step need not be done again. ``identity`` is the digest of the step and of all that it depends on. ``out``
    is the folder of the loop.
    """
    record = read_record(out, step.name)
    return record is not None and record.identity == identity and bool(record.finished) and step.result.exists()


def trained_revision(out: Path) -> str:
    """Return the revision of the model after SFT: a digest of the SFT's command, config and inputs, and of its finish
    time. Return "" if the SFT has not finished.

    So a model that is trained again in the same folder has another revision, and cached replies are not used for it.
    ``out`` is the folder of the loop.
    """
    record = read_record(out, SFT)
    if record is None or not record.finished:
        return ""
    return hashlib.sha256(f"{record.identity} {record.finished}".encode()).hexdigest()[:16]
