"""Makes the gallery of a report. The gallery shows rows with their images, points, boxes, turns and attempts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from groundtrace.grading.responses.response import parse_boxes, parse_points
from groundtrace.pages.response_parts import ResponsePart, spans_of
from groundtrace.pages.shown_images import Image, ImageRoom, shown_image
from groundtrace.publishing.row_text import added_texts
from groundtrace.publishing.shown_turns import MAX_IMAGES_OF_CODE, ShownTurn, executed_turns, shown_turns, written_turns
from groundtrace.vision.decode import UndecodableMedia
from groundtrace.vision.media import MediaMissing, MediaNotAllowed, MediaStore

MAX_IMAGES = 3
MAX_ATTEMPTS = 8
MAX_TRACE_CHARS, MAX_ATTEMPT_CHARS = 3000, 1000
ShardRow = Mapping[str, Any]
"""A row of a shard, with the columns that :mod:`groundtrace.schemas.arrow` declares."""


@dataclass(frozen=True)
class ShownAttempt:
    """Holds an attempt, i.e. a policy's answer to a question, as the gallery of the report shows it.

    A policy is the model to train. ``spans`` are the parts of the attempt's text, such as plain text, points and boxes.
    ``answer`` is the final answer that was found in this text; None if the text has none. ``correct`` is None if the
    answer was not graded.
    """

    spans: tuple[ResponsePart, ...]
    answer: str | None
    correct: bool | None


@dataclass(frozen=True)
class ShownRow:
    """Holds a row of a shard (Parquet file of a run) as the gallery of the report shows it.

    Attributes:
        row: the columns of the row.
        images: the images to show, each with its points and boxes drawn on it.
        hidden: the number of images that are left out.
        trace: the parts of the trace (a teacher's reasoning with its answer), such as plain text, points and boxes;
            empty for a trajectory (a trace in several turns with code).
        attempts: the answers to the question that the policy (the model to train) sampled.
        scores: (name, score) pairs; the score is None if it could not be computed.
        facts: (name, value) pairs of texts. The pair ``media``, such as ``("media", "a.jpg, b.jpg")``, holds the names
            of the row's images or clips. Each other pair holds the name and the value of an added column. An added
            column is a column that the input or a stage (step of the pipeline) added. Only added columns with texts,
            numbers or booleans have a pair.
        turns: the turns of a trajectory; empty for a trace without code.
        more_turns: the number of turns that are left out.
    """

    row: ShardRow
    images: tuple[Image, ...]
    hidden: int
    trace: tuple[ResponsePart, ...]
    attempts: tuple[ShownAttempt, ...]
    scores: tuple[tuple[str, float | None], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    turns: tuple[ShownTurn, ...] = ()
    more_turns: int = 0


def count_images(row: ShardRow) -> int:
    """Return how many images the gallery of the report will embed for a row.

    All images of a page together may use a limited number of bytes. The page needs the number of images to compute how
    many bytes each image may use. ``row`` holds the columns of the row.
    """
    of_code = sum(turn.images for turn in executed_turns(row))
    originals = len(row["images"] or []) - of_code
    return min(originals, MAX_IMAGES) + min(len(row["overlays"] or []), MAX_IMAGES) + min(of_code, MAX_IMAGES_OF_CODE)


def entry_of(row: ShardRow, room: ImageRoom) -> ShownRow:
    """Return what the gallery of the report shows for a row of a training set (sft or rl).

    ``row`` holds the columns of the row. ``room`` holds how many images and bytes the page may still embed; this call
    reduces these numbers. The images of a trajectory (a trace in several turns with code) are those of the question,
    followed by those that the code displayed. An image of the code is shown in the turn whose code displayed it.
    """
    images = row["images"] or []
    originals = max(len(images) - sum(turn.images for turn in executed_turns(row)), 0)
    return _entry({**row, "images": images[:originals]}, [each["bytes"] for each in images[originals:]], room)


def _entry(row: ShardRow, of_code: Sequence[bytes], room: ImageRoom) -> ShownRow:
    """Return what the gallery of the report shows for a row.

    The row's column ``images`` holds only the images of the question. ``of_code`` are the encoded images that the code
    of the response displayed. ``room`` holds how many images and bytes the page may still embed; this call reduces
    these numbers.
    """
    originals, overlays, executed = row["images"], row["overlays"] or [], executed_turns(row)
    images = [_original(row, index, room) for index in shown_images(row)]
    for number, overlay in enumerate(overlays[:MAX_IMAGES], start=1):
        caption = "as the teacher saw it" if len(overlays) == 1 else f"as the teacher saw it ({number})"
        images.append(shown_image(overlay["bytes"], caption, room))
    messages = row.get("messages") or []
    turns = shown_turns(executed, of_code, room)
    return ShownRow(
        row={"rubrics": None, **row},  # the page shows rubrics apart from other added columns
        images=tuple(images),
        hidden=len(originals) + len(overlays) - len(images),
        trace=spans_of(messages[-1]["content"] or "", MAX_TRACE_CHARS) if messages and not turns else (),
        attempts=tuple(
            ShownAttempt(spans_of(tried["text"] or "", MAX_ATTEMPT_CHARS), tried["answer"], tried["correct"])
            for tried in (row["attempts"] or [])[:MAX_ATTEMPTS]
        ),
        scores=_scores(row),
        facts=_facts(row),
        turns=turns,
        more_turns=len(executed) - len(turns),
    )


def rejected_entry(row: ShardRow, room: ImageRoom, store: MediaStore) -> ShownRow:
    """Return what the gallery of the report shows for a rejected record: its first image and its best trace, if any.

    ``row`` holds the columns of the record. A trace is a teacher's reasoning with its answer. ``room`` holds how many
    images and bytes the page may still embed; this call reduces these numbers. ``store`` reads the image file. The
    code of a trajectory (a trace in several turns with code) may have displayed further images. They are missing in the
    gallery, because rejected records do not keep them.
    """
    traces = row["traces"] or []
    best = max(traces, key=lambda trace: trace["score"] or 0.0, default=None)
    text = "" if best is None else best["text"]
    shown = {
        "messages": [{"content": text}] if text else [],
        "turns": row.get("turns") or written_turns(text),
        "points": [asdict(point) for point in parse_points(text)],
        "boxes": [asdict(box) for box in parse_boxes(text)],
        "scores": {} if best is None else {v["name"]: v["value"] for v in best["verdicts"]} | {"final": best["score"]},
        "overlays": [],
        "frames": None,
        "images": [{"bytes": _opened(medium, store)} for medium in (row["media"] or ())[:1]],
    }
    return _entry({**row, **shown}, (), room)


def _opened(medium: ShardRow, store: MediaStore) -> bytes:
    """Return the bytes of an image file; empty if it cannot be read or has changed since the run read it.

    If the result is empty, the page shows the image as missing. ``medium`` is an item of the row's ``media``, and
    ``store`` reads files.
    """
    try:
        return store.open_recorded(medium["uri"], medium["sha256"])
    except (MediaMissing, MediaNotAllowed, UndecodableMedia):
        return b""


def _facts(row: ShardRow) -> tuple[tuple[str, str], ...]:
    """Return facts about a row for the gallery of the report, as (name, value) pairs of texts.

    The pair ``media``, such as ``("media", "a.jpg, b.jpg")``, holds the names of the row's images or clips. The other
    pairs are those of the added columns (:func:`groundtrace.publishing.row_text.added_texts`).
    """
    names = row.get("media_names")
    return (*((("media", ", ".join(map(str, names))),) if names else ()), *added_texts(row))


def _scores(row: ShardRow) -> tuple[tuple[str, float | None], ...]:
    """Return the (name, score) pairs of a row, the final score last; empty if all scores are None."""
    scores = dict(row.get("scores") or {})
    final = [("final", scores.pop("final"))] if "final" in scores else []
    given = row.get("verdicts") or row.get("extra_scores") or []  # older runs have extra_scores
    further = [(each["name"], each["value"]) for each in given if each["name"] not in scores]
    found = (*scores.items(), *further, *final)
    return found if any(value is not None for _, value in found) else ()


def shown_images(row: ShardRow) -> list[int]:
    """Return the indices of the row's images that the gallery shows, in ascending order, at most :data:`MAX_IMAGES`.

    In a clip (frames of a video), frames with points are preferred to other frames.
    """
    places = _places(row)
    pointed = {(point["media_index"], point["frame"]) for point in row["points"] or []}
    first = sorted(range(len(places)), key=lambda index: (places[index] not in pointed, index))
    return sorted(first[:MAX_IMAGES])


def _places(row: ShardRow) -> list[tuple[int, int | None]]:
    """Return for each image of the row a pair: the index of its medium, and its frame number (None for a still image).

    A medium is an image or a video of the question. If it is a video, the images of the row are frames of the video.
    """
    frames = row.get("frames")
    if not frames:
        return [(index, None) for index in range(len(row["images"] or []))]
    return [(frame["media_index"], frame["frame"]) for frame in frames]


def _original(row: ShardRow, index: int, room: ImageRoom) -> Image:
    """Return the row's image number ``index`` (from 0) as the page shows it: with a caption, points and boxes. ``room``
    holds how many images and bytes the page may still embed; this call reduces these numbers.
    """
    place = media_index, frame = _places(row)[index]
    caption = "original" if len(row["images"]) == 1 else f"original {index + 1}"
    if frame is not None:
        caption = f"frame {frame} ({row['frames'][index]['t_s']:.2f} s)"
    points = [
        (n, point["label"], (point["x"], point["y"]))
        for n, point in enumerate(row["points"] or [], start=1)
        if (point["media_index"], point["frame"]) == place
    ]
    boxes = [
        (n, box["label"], (box["x1"], box["y1"], box["x2"], box["y2"]))
        for n, box in enumerate(row["boxes"] or [], start=1)
        if box["media_index"] == media_index and frame is None
    ]
    return shown_image(row["images"][index]["bytes"], caption, room, [*points, *boxes])
