"""Reads and writes the JSON lines of a training's records."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundtrace.rewards.rows.reward import Scored


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the parsed lines of a JSON Lines file, without a last line that a kill or a full disk truncated.

    A missing file has no lines.
    """
    found = []
    for line in path.read_text("utf-8", errors="replace").splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return found


def write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Write the lines to a file; without lines, delete the file."""
    path.unlink(missing_ok=True)
    if lines:
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")


def as_line(scored: Scored, stream: str | None = None) -> dict[str, object]:
    """Return a scored response as plain fields for a JSON line; the field ``stream`` is missing if it is None."""
    verdicts = {verdict.name: {"value": verdict.value, "reason": verdict.reason} for verdict in scored.verdicts}
    asked = {} if stream is None else {"stream": stream}
    return {**asked, "reward": scored.reward, "text": scored.text, "verdicts": verdicts}
