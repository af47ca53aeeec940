"""Converts replies of the detector, the pointer and the segmenter to marks that the page draws on the images.

The replies are those of one record, from a replay (a repetition of the run's stages for this record). The marks show
the objects with which the scorers (checks) compared a trace (:mod:`groundtrace.rewards.locating`). They also show the
points that the pointer found before the trace was written. This module uses the same parsing functions as the run, so a
mark is at the same position as the object that the run used. A reply can have any text and any size, so the numbers of
marks, notes and characters are limited.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groundtrace.inference.families.base import Family
from groundtrace.inference.grounding import BadReply, Mask, masks_of_reply
from groundtrace.inference.request import Completion
from groundtrace.schemas.geometry import Box, Point
from groundtrace.schemas.records import MediaRef
from groundtrace.vision.decode import UndecodableMedia, decode_image
from groundtrace.vision.outlines import outline

ROLES = ("detector", "pointer", "segmenter")
"""The roles whose replies become marks."""
MAX_MARKS = 300
"""The maximum number of objects of each role."""
MAX_NOTES = 20
MAX_CHARS = 300
"""The maximum number of characters of a label or a note."""
_SEGMENTED = ("boxes", "points")
"""The names of two variables of the segmenter's prompts. Each prompt has one of them, as a JSON list: the boxes or the
points of the objects whose masks are requested.
"""
Json = dict[str, Any]


@dataclass(frozen=True)
class ImageOfRow:
    """Holds the size of an image in pixels, and its places in the row.

    An image has several places if the row has it several times. A place is a pair: the index among the question's
    media, and the number of the frame in a clip (None for an image).
    """

    width: int
    height: int
    places: tuple[tuple[int, int | None], ...]

    @property
    def medium(self) -> MediaRef:
        """Return the image as a :class:`MediaRef`, which the parsers of replies need.

        These parsers use only the size of the image, so the other fields of the result have no meaning.
        """
        return MediaRef("", "image", "", "", "", self.width, self.height, 1, 0)


@dataclass
class ModelMarks:
    """Holds the marks of a record's replies, and notes about what is not drawn.

    A mark is a dict for JSON. It has the ``role`` that found the object, the cache ``key`` of the reply, the ``label``
    of the object, and the ``places`` of its image (:class:`ImageOfRow`). ``n`` numbers the objects of each role from 1.
    ``kind`` is "box", "point" or "mask". A box also has x1, y1, x2 and y2, a point has x and y, and a mask has
    ``rings`` and ``step_px`` (:class:`groundtrace.vision.outlines.Outline`). Coordinates are in pixels of the upright
    original image.
    """

    marks: list[Json] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _NotDrawn(ValueError):
    """Raised if a request or its reply cannot be drawn. The message states the reason."""


def images_of(row: Mapping[str, Any], requests: Iterable[Json]) -> dict[str, ImageOfRow]:
    """Return the images of a row that the detector, the pointer or the segmenter got, by the SHA-256 of their files.

    ``row`` has the columns ``images`` and ``frames``, or ``media`` for a rejected record. ``requests`` are the model
    calls for this row, which :func:`model_marks` also takes. Images that cannot be decoded are left out.
    """
    shown = {digest for each in requests if each["role"] in ROLES for digest in _digests(each)}
    places, sizes = defaultdict[str, list[tuple[int, int | None]]](list), dict[str, tuple[int, int]]()
    for index, medium in enumerate(row.get("media") or []):
        places[medium["sha256"]].append((index, None))
        sizes[medium["sha256"]] = medium["width"], medium["height"]
    frames = row.get("frames") or []
    for index, image in enumerate(row.get("images") or [] if not places else []):
        digest = hashlib.sha256(image["bytes"]).hexdigest()
        at = frames[index] if index < len(frames) else {"media_index": index, "frame": None}
        places[digest].append((at["media_index"], at["frame"]))
        if digest in shown and digest not in sizes:
            try:
                height, width = decode_image(image["bytes"]).pixels.shape[:2]
            except UndecodableMedia:
                continue
            sizes[digest] = width, height
    return {digest: ImageOfRow(*sizes[digest], tuple(places[digest])) for digest in shown & sizes.keys()}


def model_marks(
    requests: Sequence[Json],
    replies: Mapping[str, Completion],
    images: Mapping[str, ImageOfRow],
    family_of: Callable[[str], Family],
) -> ModelMarks:
    """Return the marks (points, boxes and masks of objects) in the replies of the models that find objects.

    The roles of these models are detector, pointer and segmenter. At most :data:`MAX_MARKS` marks of each role are
    returned.

    ``requests`` are the calls as :func:`groundtrace.inference.request_log.log_request` writes them, and ``replies``
    are their stored replies by cache key. ``images`` are the images of the record (:func:`images_of`). ``family_of``
    returns the family of a role's model, which defines how the model writes coordinates.

    A mask gets the label of the box or point for which it was requested. The result has a note instead of marks for a
    reply that cannot be parsed, for an empty mask, and for a reply about an image that is not in ``images``, such as a
    crop.
    """
    made, reader, counts = ModelMarks(), _Reader(images, family_of), Counter[str]()
    asked = {key: each for each in requests if each["role"] in ROLES for key in each["stored"]}
    for key, request in sorted(asked.items(), key=lambda each: each[1]["role"] == "segmenter"):
        role = request["role"]
        try:
            image, found = reader.objects(request, replies[key])
        except (BadReply, _NotDrawn) as error:
            made.notes.append(f"A reply of the {role} is not drawn: {error}")
            continue
        if empty := [label for label, each in found if isinstance(each, Mask) and not each.pixels.any()]:
            made.notes.append(f"Masks of the {role} are empty: {', '.join(map(repr, empty))}")
            found = [(label, each) for label, each in found if not isinstance(each, Mask) or each.pixels.any()]
        left = MAX_MARKS - counts[role]
        if len(found) > left:
            made.notes.append(f"Of the {role}, only the first {MAX_MARKS} objects are drawn.")
        for label, each in found[:left]:
            counts[role] += 1
            about = {"role": role, "key": key, "n": counts[role], "label": label[:MAX_CHARS]}
            made.marks.append(about | {"places": image.places} | _drawn(each))
    made.notes = [note[:MAX_CHARS] for note in dict.fromkeys(made.notes)][:MAX_NOTES]
    return made


class _Reader:
    """Parses the replies of the detector, the pointer and the segmenter for one record.

    The replies of the segmenter must be parsed last. The segmenter's requests contain only the coordinates of boxes and
    points. So this class stores the labels of the boxes and points in the replies of the detector and the pointer.
    """

    def __init__(self, images: Mapping[str, ImageOfRow], family_of: Callable[[str], Family]) -> None:
        self._images, self._family_of = images, family_of
        self._labels = defaultdict[tuple[str, str], dict[str, None]](dict)

    def objects(self, request: Json, reply: Completion) -> tuple[ImageOfRow, list[tuple[str, Box | Point | Mask]]]:
        """Return the image of a request, and the objects in its reply with their labels.

        Raises :class:`_NotDrawn` if the request does not show exactly one image of the record. Also raises it if a
        request to the detector or the pointer names no object, or if a request to the segmenter has no list of boxes or
        points. Raises BadReply if the reply cannot be parsed.
        """
        digest, *others = _digests(request) or [""]
        image = self._images.get(digest)
        if others or image is None:
            raise _NotDrawn("the request does not show exactly one image of this record")
        if request["role"] == "segmenter":
            return image, list(self._masks(request, reply, digest, image.medium))
        found = self._places(request, reply, image.medium)
        for each in found:
            corners = [each.x1, each.y1, each.x2, each.y2] if isinstance(each, Box) else [each.x, each.y]
            self._labels[digest, json.dumps(corners)][each.label] = None
        return image, [(each.label, each) for each in found]

    def _places(self, request: Json, reply: Completion, medium: MediaRef) -> Sequence[Box | Point]:
        variables, family = request["variables"], self._family_of(request["role"])
        label = variables.get("label") or variables.get("entity")
        if not label:
            raise _NotDrawn(f"the request with the prompt {request['prompt']} names no object")
        if reply.is_truncated:
            raise BadReply("the end of the reply is missing")
        read = family.boxes if request["role"] == "detector" else family.points
        return read(reply.text, label, medium, 0).found

    def _masks(self, request: Json, reply: Completion, digest: str, medium: MediaRef) -> Iterable[tuple[str, Mask]]:
        try:
            [written] = [request["variables"][name] for name in _SEGMENTED if name in request["variables"]]
            places = [json.dumps(each) for each in json.loads(written)]
        except (ValueError, TypeError, RecursionError) as error:
            raise _NotDrawn(
                f"the request with the prompt {request['prompt']} has no list of boxes or points"
            ) from error
        labels = (", ".join(self._labels[digest, place]) for place in places)
        return zip(labels, masks_of_reply(reply.text, len(places), medium), strict=True)


def _digests(request: Json) -> list[str]:
    """Return the SHA-256 of each image file that a request shows."""
    return [part["sha256"] for part in request["user"] if "sha256" in part]


def _drawn(found: Box | Point | Mask) -> Json:
    """Return the kind of an object ("box", "point" or "mask") and its coordinates, as a dict for JSON."""
    if isinstance(found, Mask):
        traced = outline(found.pixels)
        rings = [[value + (found.x, found.y)[n % 2] for n, value in enumerate(ring)] for ring in traced.rings]
        return {"kind": "mask", "rings": rings, "step_px": traced.step_px}
    names = ("x1", "y1", "x2", "y2") if isinstance(found, Box) else ("x", "y")
    return {"kind": "box" if isinstance(found, Box) else "point"} | {name: getattr(found, name) for name in names}
