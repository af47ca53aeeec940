"""From the text of a response to a :class:`schemas.records.Trace`: answer, points and boxes, tied to the media."""

from dataclasses import replace

from schemas.geometry import Point
from schemas.records import MediaRef, Trace
from schemas.responses.image_mentions import place_in_pictures
from schemas.responses.response import normalise, parse_response
from schemas.responses.times import anchor_points, resolve_moment


def read_trace(index: int, text: str, media: tuple[MediaRef, ...] = ()) -> Trace:
    """The trace of a text in original pixels, rewritten in canonical tags.

    In a trace on a clip each point has the frame that the text ties to it (:func:`anchored_points`), in one on several
    pictures each point and box its picture (:func:`schemas.responses.image_mentions.place_in_pictures`). Never raises.
    """
    text = normalise(text)
    response = parse_response(text)
    points, boxes = response.points, response.boxes
    if any(medium.frames for medium in media):
        points = anchored_points(text, media)
    elif len(media) > 1:
        points, boxes = place_in_pictures(text)
    return Trace(index, text, response.answer, points, boxes)


def anchored_points(text: str, media: tuple[MediaRef, ...]) -> tuple[Point, ...]:
    """The points of a text on a clip, the first one where there are several, with frame number and time.

    A moment that names none of the frames shown stays as stated: no such frame can be looked at, so its point scores 0.
    """
    clip = next(index for index, medium in enumerate(media) if medium.frames)
    frames = [(frame.number, frame.t_s) for frame in media[clip].frames]
    points = []
    for point in anchor_points(text):
        found, _ = resolve_moment(point.frame, point.t_s, frames)
        number, t_s = (point.frame, point.t_s) if found is None else frames[found]
        points.append(replace(point, media_index=clip, frame=number, t_s=t_s))
    return tuple(points)
