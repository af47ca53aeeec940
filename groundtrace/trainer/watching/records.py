"""Reads and writes the JSON lines of a training's records."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundtrace.rewards.rows.reward import Scored
from groundtrace.storage.files import write_atomically


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the parsed lines of a JSON Lines file, without a last line that a kill or a full disk truncated.

    A missing file has no lines. Only a line feed ends a line: texts may hold other separators, such as U+2028.
    """
    found = []
    for line in path.read_text("utf-8", errors="replace").split("\n") if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Replace the lines of a file, as a whole or not at all; without lines, delete the file."""
    if lines:
        write_atomically(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    else:
        path.unlink(missing_ok=True)


def as_line(scored: Scored, stream: str | None = None) -> dict[str, object]:
    """Return a scored response as plain fields for a JSON line; the field ``stream`` is missing if it is None."""
    verdicts = {verdict.name: {"value": verdict.value, "reason": verdict.reason} for verdict in scored.verdicts}
    asked = {} if stream is None else {"stream": stream}
    return {**asked, "reward": scored.reward, "text": scored.text, "verdicts": verdicts}
