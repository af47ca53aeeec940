"""Reads and writes the records of a training (such as metrics) as JSON lines: each line of a file is a JSON object."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundtrace.rewards.rows.reward import Scored
from groundtrace.schemas.errors import UserError
from groundtrace.schemas.safe_files import opened_regular
from groundtrace.storage.files import write_atomically

_REMEDY = "delete this line, or move the file away"


def read_lines(path: Path, texts: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the JSON objects in a file with one object on each line; empty if the file is missing.

    ``texts`` holds keys. In every object, the value of each of these keys must be a text. A line that is not JSON is
    skipped. For example, the last line is not JSON if a full disk truncated it. Only a line feed ends a line, because
    texts may contain other separators, such as U+2028.

    Raises UserError if a line is JSON but not an object, or if the value of a key in ``texts`` is missing or not a
    text. This can happen if the file comes from another person. Also raises UserError if JSON cannot be read, e.g.
    because it is nested too deeply. Raises UnsafeFile if the file is a pipe or a device.
    """
    if not path.exists():
        return []
    found = []
    with opened_regular(path) as stream:
        for number, line in enumerate(stream, 1):
            try:
                value = json.loads(line.decode("utf-8", errors="replace"))
            except json.JSONDecodeError:
                continue
            except (RecursionError, ValueError) as error:
                raise _wrong(path, number, f"cannot be read ({type(error).__name__})") from error
            if not isinstance(value, dict):
                raise _wrong(path, number, "is not a JSON object")
            if missing := [name for name in texts if not isinstance(value.get(name), str)]:
                raise _wrong(path, number, f"has no text in {missing[0]!r}")
            found.append(value)
    return found


def read_steps(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file with metrics as dicts: each has a step, and all other values are numbers or None.

    The result is empty if the file is missing. Raises UserError if a line has other values. Also raises the errors of
    :func:`read_lines`.
    """
    lines = read_lines(path)
    for line in lines:
        if type(line.get("step")) is not int:
            raise UserError(
                f"{path} has the line {line!s:.80}, whose step is missing or not a whole number: delete this line, "
                "or move the file away"
            )
        wrong = [name for name, value in line.items() if not isinstance(value, int | float | None)]
        if wrong:
            raise UserError(
                f"{path} has a line of step {line['step']} in which the value of {wrong[0]!r:.40} is not a number: "
                "delete this line, or move the file away"
            )
    return lines


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl, one for each step of a training; empty if the file is missing.

    Steps are numbered from 1. Earlier versions of the trainer numbered them from 0: if there is a step 0, every number
    is raised by 1. Raises the errors of :func:`read_steps`.
    """
    lines = read_steps(path)
    offset = int(any(line["step"] == 0 for line in lines))
    return [line | {"step": line["step"] + offset} for line in lines]


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Replace the content of a file by the objects ``lines``, one JSON line for each. Without objects, delete the file.

    A process that reads the file at the same time gets either the old or the complete new content.
    """
    if lines:
        write_atomically(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    else:
        path.unlink(missing_ok=True)


def as_line(scored: Scored, stream: str | None = None) -> dict[str, object]:
    """Return a scored response as a dictionary that can be written as a JSON line.

    The dictionary has the keys ``reward``, ``text`` and ``verdicts`` (the scores of single aspects by name, each
    with its value and reason). ``stream`` is the name of the form of response: ``grounded`` (with boxes) or ``textual``
    (words only). If it is not None, the dictionary also has the key ``stream``.
    """
    verdicts = {verdict.name: {"value": verdict.value, "reason": verdict.reason} for verdict in scored.verdicts}
    asked = {} if stream is None else {"stream": stream}
    return {**asked, "reward": scored.reward, "text": scored.text, "verdicts": verdicts}


def _wrong(path: Path, number: int, reason: str) -> UserError:
    return UserError(f"line {number} of {path} {reason}: {_REMEDY}")
