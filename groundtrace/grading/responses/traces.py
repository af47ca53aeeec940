"""Converts the text of a teacher's response to a :class:`groundtrace.schemas.records.Trace`.

A trace holds the answer, and the points and boxes with the index of their image or frame.
"""

from dataclasses import replace

from groundtrace.grading.responses.image_mentions import place_in_images
from groundtrace.grading.responses.response import normalise, parse_response
from groundtrace.grading.responses.times import anchor_points, resolve_moment
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.records import MediaRef, Trace

_INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u2060\u00ad"))
"""Invisible characters that :func:`read_trace` removes from a text, because they split words and tags.

Other invisible characters are not removed, such as the joiners that some scripts and emoji need.
"""


def read_trace(index: int, text: str, media: tuple[MediaRef, ...] = ()) -> Trace:
    """Parse a teacher's response, and return it as a trace: its text, answer, points and boxes. Never raises.

    Coordinates in ``text`` are in original pixels. ``index`` is the number of the trace among the traces of its
    question. ``media`` are the images and clips of the question. In the trace's text, point tags are rewritten in the
    form ``<points x1="1" y1="2" alt="dog">dog</points>``. For a clip, each point gets the frame that the text names for
    it. For several images, each point and box gets the image that the text names for it
    (:func:`groundtrace.grading.responses.image_mentions.place_in_images`).
    """
    text = normalise(text.translate(_INVISIBLE))
    response = parse_response(text)
    points, boxes = response.points, response.boxes
    if any(medium.frames for medium in media):
        points = _anchored_points(text, media)
    elif len(media) > 1:
        points, boxes = place_in_images(text)
    return Trace(index, text, response.answer, points, boxes)


def _anchored_points(text: str, media: tuple[MediaRef, ...]) -> tuple[Point, ...]:
    """Return the points of a text about a video clip, each with the number and the time of its frame.

    If ``media`` has several clips, all points are assigned to the first clip. The text may state a frame number or a
    time that matches no frame of the clip. A point with such a number or time keeps it, and scores 0.
    """
    clip = next(index for index, medium in enumerate(media) if medium.frames)
    frames = [(frame.number, frame.t_s) for frame in media[clip].frames]
    points = []
    for point in anchor_points(text):
        found, _ = resolve_moment(point.frame, point.t_s, frames)
        number, t_s = (point.frame, point.t_s) if found is None else frames[found]
        points.append(replace(point, media_index=clip, frame=number, t_s=t_s))
    return tuple(points)
