"""Saves a sample of a step's rollouts for inspection: question, response, reward, and the points on the image."""

import json
from collections.abc import Sequence
from pathlib import Path

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.rewards.rows.reward import Scored
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.trainer.group import Group
from groundtrace.vision.decode import decode_image
from groundtrace.vision.overlay import BoxMark, Mark, draw_overlay, encode_png

SHOWN_GROUPS, SHOWN_ROLLOUTS = 2, 2


def save_rollouts(folder: Path, groups: Sequence[Group]) -> None:
    """Write ``rollouts.jsonl`` and an overlay for each rollout of the first groups."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for place, group in enumerate(groups[:SHOWN_GROUPS]):
        for number, scored in enumerate(group.scored[:SHOWN_ROLLOUTS]):
            name = f"{place}-{number}.png"
            drawn = overlay_png(group.row, scored.text)
            if drawn is not None:
                (folder / name).write_bytes(drawn)
            line = {"id": group.row.id, "gold": group.row.question.answer, **as_line(scored, group.row.context.stream)}
            lines.append(json.dumps(line | {"overlay": name if drawn else None}, ensure_ascii=False))
    (folder / "rollouts.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def as_line(scored: Scored, stream: str | None = None) -> dict[str, object]:
    """A scored response as plain fields, with its stream if it has one."""
    verdicts = {verdict.name: {"value": verdict.value, "reason": verdict.reason} for verdict in scored.verdicts}
    asked = {} if stream is None else {"stream": stream}
    return {**asked, "reward": scored.reward, "text": scored.text, "verdicts": verdicts}


def overlay_png(row: TrainingRow, text: str) -> bytes | None:
    """The row's first image with the text's points and boxes drawn on it, as PNG; None without an image or marks."""
    points, boxes = parse_points(text), parse_boxes(text)
    if not row.images or not (points or boxes):
        return None
    marks = [Mark(number, point.label, point.x, point.y) for number, point in enumerate(points, 1)]
    frames: list[BoxMark] = [(number, b.label, b.x1, b.y1, b.x2, b.y2) for number, b in enumerate(boxes, 1)]
    return encode_png(draw_overlay(decode_image(row.images[0][0]).pixels, marks, frames))
