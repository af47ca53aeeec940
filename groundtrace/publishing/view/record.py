"""Prepares all data of one record for the page of ``beam view``.

The data of a record are its images, its traces with their scores, the policy's attempts at the question, the turns of a
trajectory (a trace with code), and facts such as the source of the record.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.pages.response_parts import spans_of
from groundtrace.publishing.shown_turns import executed_turns, written_turns
from groundtrace.publishing.view.images import RowImages
from groundtrace.publishing.view.reviews import text_digest
from groundtrace.publishing.view.rows import RowPlace
from groundtrace.schemas.arrow import CORE

MAX_CHARS = 60_000
"""The maximum number of characters that a page shows of one text."""
NO_INPUT_ROW = "not stored: repeat the run with --set write.input_row=true (replies are taken from the cache)"
"""The text for a row without the column ``input_row``. SFT and RL rows have this column only if the config requests it.
"""
_PATHS = {"images": "images.list.element.path", "overlays": "overlays.list.element.path"}
Json = dict[str, Any]


def record_of(place: RowPlace, images: RowImages) -> Json:
    """Return all data of a record as the page shows it, as a dict that is ready for JSON.

    ``place`` is the file and index of the record's row, and ``images`` reads its images. Coordinates are in pixels of
    the upright original image. The points of a text are numbered from 1 in their order in the text; the boxes of a text
    are numbered separately in the same way. Some parts of the result need an explanation:

    - A trace has verdicts, which are the results of its scorers. The verdict that rejected the record has ``rejects`` =
      True. A point of a trace has ``off`` = True if it is not on its object, according to these verdicts. In runs of
      earlier code, only the points of kept traces (those of SFT rows) can have ``off``, because the run did not store
      the evidence for other traces.
    - ``pointed`` holds the points that the pointer (the model that points at objects) found. It is empty for a record
      that was not rejected.
    - ``images`` has one dict for each image, with the column and the index by which the page requests the image.

    Raises :class:`groundtrace.publishing.reading.InspectError` if the shard (the row's Parquet file) has changed.
    """
    names = images.schema_names(place)
    row = images.values(place, [_PATHS.get(name, name) for name in names])
    turns = _turns_of(row)
    of_code = sum(turn["images"] for turn in turns)
    return {
        "id": row["id"],
        "set": place.set,
        "stage": row.get("stage"),
        "reason": row.get("reason"),
        "detail": row.get("detail"),
        "question": row.get("question"),
        "choices": row.get("choices") or [],
        "answer": row.get("answer"),
        "answer_type": row.get("answer_type"),
        "images": _images_of(row, of_code),
        "gold": [_box(number, box) for number, box in enumerate(row.get("gold_boxes") or [], 1)],
        "pointed": [
            {"n": number, "kind": "point"} | dict(point)
            for number, point in enumerate(row.get("points") or [], 1)
            if place.set == "rejected"  # in other sets, they are the points of the kept trace
        ],
        "traces": _with_rejecting(traces_of(row), row),
        "attempts": [
            {**_text(each["text"] or ""), "answer": each["answer"], "correct": each["correct"]}
            for each in row.get("attempts") or []
        ],
        "turns": turns,
        "facts": _facts_of(row),
    }


def _images_of(row: Mapping[str, Any], of_code: int) -> list[Json]:
    """Return the row's images: first the originals, then the images that code displayed, then the overlays.

    The frames of a clip count as originals. ``of_code`` is the number of images that code displayed. Overlays are
    copies of originals with drawings, such as points, that a stage (pipeline step) made for the teacher.
    """
    frames, held = row.get("frames") or [], row.get("images") or []
    originals, found = max(len(held) - of_code, 0), list[Json]()
    names = row.get("media_names") or []
    for index in range(len(held)):
        shown = {"column": "images", "index": index, "media_index": index, "frame": None, "kind": "original"}
        if index >= originals:
            shown |= {"kind": "code", "caption": f"shown by code ({index - originals + 1})"}
        elif index < len(frames):
            frame = frames[index]
            shown |= {"media_index": frame["media_index"], "frame": frame["frame"], "kind": "frame"}
            shown |= {"caption": f"frame {frame['frame']}, {frame['t_s']:.2f} s", "t_s": frame["t_s"]}
        else:
            shown |= {"caption": (names[index] if index < len(names) else "") or f"original {index + 1}"}
        found.append(shown)
    for index, medium in enumerate(row.get("media") or []) if not held else ():
        name = (names[index] if index < len(names) else "") or medium["uri"].rpartition("/")[2]
        found.append({"column": "media", "index": index, "media_index": index, "frame": None, "kind": "original"})
        found[-1]["caption"] = name
    for index in range(len(row.get("overlays") or [])):
        found.append({"column": "overlays", "index": index, "media_index": None, "frame": None, "kind": "overlay"})
        found[-1]["caption"] = f"as the teacher saw it ({index + 1})"
    return found


def traces_of(row: Mapping[str, Any]) -> list[Json]:
    """Return the row's traces (a teacher's reasonings with answers) for the page, the best one first. An RL row has no
    trace.

    The result for a rejected record holds all its traces. The result for an SFT row begins with the kept trace. The
    question's other traces follow only if the run wrote them to the row (``write.other_traces``).
    """
    if row.get("traces"):
        return _ordered(row["traces"])
    messages = row.get("messages") or []
    if not messages:
        return []
    scores = dict(row.get("scores") or {})
    held = [each for each in row.get("verdicts") or [] if each and each.get("name")]
    final, verdicts = scores.pop("final", None), [_verdict(each) for each in held]
    named = {each["name"] for each in verdicts}
    verdicts += [{"name": name, "value": value} for name, value in scores.items() if name not in named]
    prompt = [{"role": each["role"], **_text(each["content"] or "")} for each in messages[:-1]]
    kept = messages[-1]["content"] or ""
    last = {**_checked_text(kept, held), "answer": None, "score": final, "verdicts": verdicts, "count": 1}
    others = row.get("other_traces") or []
    last["count"] += sum(each["text"] == kept for each in others)
    return [last | {"prompt": prompt}, *_ordered([each for each in others if each["text"] != kept])]


def _ordered(traces: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Return traces (a teacher's reasonings with answers) with their verdicts (scores of single aspects). The trace
    with the highest score is first.

    Traces with the same text are one item, whose ``count`` is their number.
    """
    ordered = sorted(traces, key=lambda each: -(each["score"] if each["score"] is not None else -1.0))
    counts, best = Counter(each["text"] for each in traces), dict[str, Mapping[str, Any]]()
    for each in ordered:
        best.setdefault(each["text"], each)
    found = list[Json]()
    for text, each in best.items():
        held = [verdict for verdict in each["verdicts"] or [] if verdict and verdict.get("name")]
        shown = {**_checked_text(text, held), "answer": each["answer"], "score": each["score"], "count": counts[text]}
        found.append(shown | {"verdicts": [_verdict(verdict) for verdict in held]})
    return found


def _checked_text(text: str, verdicts: Sequence[Mapping[str, Any]]) -> Json:
    """Return what the page shows of a trace (reasoning with answer): the result of :func:`_text`, in which each mark
    (point or box) also has the key ``off``.

    ``off`` is True if the mark is a point that is not on its object, according to the ``verdicts`` (results of checks)
    on the trace. Otherwise ``off`` is False.
    """
    shown, off = _text(text), _points_off(verdicts)
    for mark in shown["marks"]:
        mark["off"] = mark["kind"] == "point" and _place_of(mark) in off
    return shown


def _with_rejecting(traces: list[Json], row: Mapping[str, Any]) -> list[Json]:
    """Mark the verdict that rejected the record with ``rejects`` = True, and return the traces of the row.

    ``traces`` are those of :func:`traces_of`, the best one first. The row names the scorer that rejected the record; if
    it names none, nothing is marked. The traces are searched in their order for a verdict of this scorer. The first
    such verdict with a value is marked. There is one exception: if the record was rejected because it could not be
    checked, the first such verdict without a value is marked.

    A trace with a wrong answer has a verdict only from the scorer of the answer. So if another scorer rejected the
    record, the marked verdict is on the best trace with a right answer.
    """
    has_value = row.get("reason") not in ("unverifiable", "execution_lost")
    held = (each for trace in traces for each in trace["verdicts"] if each["name"] == row.get("rejected_by"))
    found = next((each for each in held if (each["value"] is not None) == has_value), None)
    if found is not None:
        found["rejects"] = True
    return traces


def _points_off(verdicts: Sequence[Mapping[str, Any]]) -> set[tuple[Any, ...]]:
    """Return the places (:func:`_place_of`) of the points that are not on an object of their label.

    The places are read from the evidence of the ``verdicts``. The evidence for a point that is not on its object is a
    JSON object with the place of the point and the field ``on`` = false. All other evidence is ignored, because other
    scorers write other fields.
    """
    found = set[tuple[Any, ...]]()
    for text in (each for verdict in verdicts for each in verdict.get("evidence") or []):
        try:
            view = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            continue
        if isinstance(view, dict) and view.get("on") is False and {"x", "y", "media_index"} <= view.keys():
            place = _place_of(view)
            if all(each is None or isinstance(each, int | float) for each in place):
                found.add(place)
    return found


def _place_of(point: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the place of a point: its image, its frame in a video clip, and its position."""
    return point["media_index"], point.get("frame"), point["x"], point["y"]


def _verdict(verdict: Mapping[str, Any]) -> Json:
    """Return a verdict (the result of one check of a trace) without its empty fields. ``value`` is always included."""
    return {name: value for name, value in verdict.items() if value not in (None, "", [])} | {
        "value": verdict.get("value")
    }


def _text(text: str) -> Json:
    """Return what the page shows of a text, such as a response, as a dict.

    ``parts`` are plain text, structural tags, points and boxes, in their order (:func:`spans_of`). Only the first
    :data:`MAX_CHARS` characters are split into parts. ``marks`` are the points and boxes of the whole text, with their
    numbers. ``sha256`` is the SHA-256 of the whole text.
    """
    points = [{"n": n, "kind": "point"} | asdict(point) for n, point in enumerate(parse_points(text), 1)]
    boxes = [_box(n, asdict(box)) for n, box in enumerate(parse_boxes(text), 1)]
    parts = [
        {"kind": part.kind, "text": part.text, "marks": [{"n": n, "at": at} for n, at in part.marks]}
        for part in spans_of(text, MAX_CHARS)
    ]
    return {"parts": parts, "marks": [*points, *boxes], "sha256": text_digest(text)}


def _box(number: int, box: Mapping[str, Any]) -> Json:
    """Return a box as a mark that the page draws on the image.

    ``number`` is the position of the box, from 1, among the gold boxes or among the boxes of one text.
    """
    return {"n": number, "kind": "box", "frame": None} | dict(box)


def _turns_of(row: Mapping[str, Any]) -> list[Json]:
    """Return the turns of the row's trajectory (a trace in several turns with code), or else of its best trace; empty
    if neither has turns.

    Points are numbered over all turns, and so are boxes. A point has ``off`` = True if it is not on its object,
    according to the verdicts (results of checks) on the trace.
    """
    executed, verdicts = list[Any](executed_turns(row)), row.get("verdicts") or []
    if not executed and row.get("traces"):
        best = max(row["traces"], key=lambda each: each["score"] if each["score"] is not None else -1.0)
        executed, verdicts = executed_turns({"turns": written_turns(best["text"] or "")}), best["verdicts"] or []
    counts, found = Counter[str](), list[Json]()
    for turn in executed:
        shown = _checked_text(turn.text, [each for each in verdicts if each])
        for mark in shown["marks"]:
            mark["n"] += counts[mark["kind"]]
        for part in shown["parts"]:
            for mark in part["marks"]:
                mark["n"] += counts["box" if part["kind"] == "box" else "point"]
        counts.update(mark["kind"] for mark in shown["marks"])
        found.append({**asdict(turn), **shown})
    return found


def _facts_of(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return facts about a record that are not parts of its question or responses, as (name, text) pairs.

    Examples are the line of the input from which the record was read, the names of its media in the input, the columns
    that stages (pipeline steps) have added, and the models that made the record.
    """
    wanted = ("source", "license", "pass_rate", "k", "boxes_source", "entities", "pointable", "cost_usd", "cache_key")
    place = (row["input_row"] or "unknown") if "input_row" in row else NO_INPUT_ROW
    facts = [("input row", place)]
    facts += [(name, _plain(row[name])) for name in wanted if row.get(name) not in (None, "", [])]
    if names := [name for name in row.get("media_names") or [] if name]:
        facts.append(("media", ", ".join(names)))
    hidden = {*CORE, "input_row"}
    facts += [(name, _plain(value)) for name, value in row.items() if name not in hidden and _is_shown(value)]
    lineage = row.get("lineage") or {}
    facts += [(f"{each['role']}", each["model"]) for each in lineage.get("models") or []]
    facts += [("prompt", each["id"]) for each in lineage.get("prompts") or []]
    return facts + [("cache key", key) for key in lineage.get("cache_keys") or []]


def _is_shown(value: object) -> bool:
    """Return whether a value is a text, a number, a boolean, or a list of such values, and is not empty."""
    plain = str | int | float | bool
    return value not in ("", []) and (
        isinstance(value, plain) or (isinstance(value, list) and all(isinstance(each, plain) for each in value))
    )


def _plain(value: object) -> str:
    """Return a value as text; the items of a list are separated by commas."""
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
