"""Scores whether a response's statements on a video clip are true at the frames and times that it states (Argos Eq. 4).

Three categories of statements are scored (App. D):

- Points in frames are scored like points in images (Eq. 1-2).
- Descriptions of one frame are scored by a judge that sees this frame (Fig. 11).
- Descriptions of a span of time are scored by a judge that sees the frames of the span in order (Eq. 4, Fig. 12).

Each statement has the score 0 or 1. The value of a category is the mean score of its statements. The points are an
exception: their value is :func:`groundtrace.rewards.pointing_score.pointing_score`, as for images. The reward is the
mean over the categories that have a scored statement. §3.1 has only two sets of statements: S_f (on frames) and S_e (on
spans of time). Here, as in App. D, the statements on frames are divided into points and descriptions.

The paper leaves some cases open. They are decided as follows:

- A statement scores 0 if its moment (the frame, time or span that it states) is not in the clip, or if its frame and
  its time contradict each other. A point without a moment also scores 0; otherwise a response could raise its score by
  omitting moments.
- A response that states no moment scores 0 in two cases: the pointer (the model that points at objects) found an object
  in the clip, or the response has points.
- A response with too many statements scores 0.
- If the judge or a model that finds objects fails for one statement, the whole verdict (the result of this scorer) has
  failed.
- Deviation: the reward is at most the value of the points. So good descriptions cannot compensate for points that are
  not on their objects. If the question has objects to point at, a response without points has the value 0 for the
  points. So good descriptions cannot compensate for missing points either.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from groundtrace.grading.messages import MediaPart, Part, TextPart, media_part
from groundtrace.grading.responses.response import parse_points
from groundtrace.grading.responses.tags import scan_tags
from groundtrace.grading.responses.times import format_moment, parse_times, resolve_moment, resolve_span
from groundtrace.inference.caller import Caller
from groundtrace.inference.errors import CallError
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.role_calls import Asks
from groundtrace.rewards import extraction, locating
from groundtrace.rewards.case import Case
from groundtrace.rewards.extraction import FrameStatement, SegmentStatement, Statements, extract_statements
from groundtrace.rewards.judge import ROLE, JudgeTask, judge, yes_or_no
from groundtrace.rewards.pointing_score import DEFAULT_POINTING, PointCounts, PointingSettings, pointing_score
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers.spatial import point_checker
from groundtrace.rewards.targets import targets_of
from groundtrace.schemas.geometry import Point
from groundtrace.schemas.ordering import thinned
from groundtrace.schemas.records import Verdict

NAME = "temporal"
FRAME_PROMPT, SEGMENT_PROMPT = "judge_frame.v2", "judge_segment.v2"
CATEGORIES = ("points", "frames", "segments")
MAX_OF_A_CATEGORY = 32
"""The maximum number of statements of one category in a response; a response with more of them scores 0.

The categories are points, descriptions of one frame, and descriptions of a span of time.
"""
MAX_DESCRIPTION_CHARS = 2000
MAX_SHOWN_FRAMES = 32


@dataclass(frozen=True)
class ClipFrame:
    """Holds one frame that was sampled from a video clip.

    ``number`` is the number by which responses refer to the frame. ``t_s`` is the time of the frame in seconds.
    ``part`` is the image of the frame, in the form in which a judge gets it.
    """

    number: int
    t_s: float
    part: MediaPart


@dataclass(frozen=True)
class ItemScore:
    """Holds the score of one statement about a clip.

    Attributes:
        category: the kind of statement: ``points``, ``frames`` (descriptions of one frame) or ``segments``
            (descriptions of a span of time).
        item: a short text that names the statement.
        value: 1 if the statement is true, else 0. It is None for a point on an object that the question is not about,
            and for a statement that could not be checked.
        frames: the numbers of the frames in which the statement was checked.
        reason: the reason for the value.
        failed: whether the statement could not be checked.
    """

    category: str
    item: str
    value: float | None
    frames: tuple[int, ...]
    reason: str
    failed: bool = False

    @property
    def evidence(self) -> str:
        """Return all fields as one JSON object, which a verdict (the result of a scorer) stores as evidence."""
        return json.dumps(vars(self), ensure_ascii=False)


Spatial = Callable[[Point], Awaitable[bool | None]]
Media = dict[str, Sequence[Part]]


async def score_temporal(
    statements: Statements,
    clip: Sequence[ClipFrame],
    caller: Caller,
    spatial: Spatial | None = None,
    *,
    has_targets: bool = False,
    pointing: PointingSettings = DEFAULT_POINTING,
) -> Verdict:
    """Return the verdict on a response's statements about a clip; its value is a mean over categories (Argos §3.1).

    The categories of statements are points, descriptions of one frame, and descriptions of a span of time. The value of
    the verdict is the mean of the values of the categories that have a scored statement. There are two exceptions:

    - The value of the verdict is at most the value of the category of points. If all points are wrong, the value of
      this category is negative.
    - The value of the verdict is 0 if there are no statements, or too many of one category
      (:data:`MAX_OF_A_CATEGORY`).

    The evidence is one :class:`ItemScore` for each statement; it is empty if there are too many statements. The verdict
    has failed (value None) if a statement could not be checked, or if the clip has no frames.

    Args:
        statements: the statements that the response makes about the clip.
        clip: the sampled frames, in order of time.
        caller: the object with which the judge is called.
        spatial: a function that checks one point (:func:`groundtrace.rewards.scorers.spatial.point_checker`). It gets
            the point with the number and time of its frame. It returns True for a right point, False for a wrong point,
            and None for a point that does not count. If ``spatial`` is None, or if it raises CallError or BadReply, the
            points cannot be checked.
        has_targets: whether the question has objects to point at. If so, the category of points always has a value. The
            value is 0 if no point is right or wrong, for example because the response has no points.
        pointing: the weights of the pointing score.

    Raises:
        BudgetUsedUp: if the run's budget for model calls is used up.
    """
    if not clip:
        return Verdict(NAME, None, "the clip has no frames to look at", failed=True)
    over = sum(max(0, len(getattr(statements, category)) - MAX_OF_A_CATEGORY) for category in CATEGORIES)
    if over:
        return Verdict(NAME, 0.0, f"{over} statements more than the {MAX_OF_A_CATEGORY} of a category that are checked")
    seen = _ClipScorer(tuple(clip), caller, spatial)
    work = [
        *(seen.point(point) for point in statements.points),
        *(seen.frame(statement) for statement in statements.frames),
        *(seen.segment(statement) for statement in statements.segments),
    ]
    items = await _all(work)
    means: dict[str, float] = {}
    parts: list[str] = []
    for category in CATEGORIES:
        values = [item.value for item in items if item.category == category and item.value is not None]
        if values:
            means[category] = sum(values) / len(values)
            parts.append(f"{category} {sum(values):g} of {len(values)}")
    right = sum(item.value == 1 for item in items if item.category == "points")
    wrong = sum(item.value == 0 for item in items if item.category == "points")
    if has_targets or right or wrong:
        means["points"] = pointing_score(PointCounts(right, wrong), pointing)
    reason, evidence = _reason(parts, items, statements), tuple(item.evidence for item in items)
    if any(item.failed for item in items):
        return Verdict(NAME, None, reason, evidence, failed=True)
    value = sum(means.values()) / len(means) if means else 0.0
    return Verdict(NAME, min(means.get("points", 1.0), value), reason, evidence)


T = TypeVar("T")


async def _all(work: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Run all coroutines at the same time, and return their results in the order of ``work``.

    If a coroutine raises an error, the error is raised only after all coroutines have ended.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


def _reason(parts: list[str], items: list[ItemScore], statements: Statements) -> str:
    unscored = [item for item in items if item.failed]
    failed = [item for item in items if item.value == 0]
    parts = parts or ["nothing to judge" if not items else "no item could be scored"]
    if unscored:
        parts.append(f"{len(unscored)} unscored, as {unscored[0].item}: {unscored[0].reason}")
    if statements.dropped:
        parts.append(f"{len(statements.dropped)} not borne out by the response")
    listed = ", ".join(f"{item.item}: {item.reason}" for item in failed[:3])
    return "; ".join(parts) + (f"; wrong: {listed}" + (" and more" if len(failed) > 3 else "") if failed else "")


@dataclass(frozen=True)
class _ClipScorer:
    """Holds a clip, with the judge and the point checker that score statements about the clip."""

    clip: tuple[ClipFrame, ...]
    caller: Caller
    spatial: Spatial | None

    @property
    def times(self) -> tuple[tuple[int, float], ...]:
        return tuple((frame.number, frame.t_s) for frame in self.clip)

    async def point(self, point: Point) -> ItemScore:
        """Return the score of a point in a clip: whether the point is on the object that its label names (Argos Eq. 2).

        The point is checked in one frame: the frame whose number or time the response states for the point. The value
        is 0 if the response states neither, or if they do not fit the clip (:func:`resolve_moment`). The value is None
        if the point does not count (:func:`score_temporal`), or if it could not be checked.
        """
        item = f"{point.label!r:.60} at ({point.x:g}, {point.y:g})"
        if point.frame is None and point.t_s is None:
            return ItemScore("points", item, 0.0, (), "no frame or time is stated for it")
        index, reason = resolve_moment(point.frame, point.t_s, self.times)
        if index is None:
            return ItemScore("points", item, 0.0, (), reason)
        frame = self.clip[index]
        if self.spatial is None:
            problem = "no endpoint is configured that finds objects"
            return ItemScore("points", item, None, (frame.number,), problem, failed=True)
        try:
            on_object = await self.spatial(replace(point, frame=frame.number, t_s=frame.t_s))
        except (CallError, BadReply) as error:
            return ItemScore("points", item, None, (frame.number,), str(error), failed=True)
        if on_object is None:
            return ItemScore("points", item, None, (frame.number,), "without a vote")
        return ItemScore("points", item, float(on_object), (frame.number,), "on it" if on_object else "not on it")

    async def frame(self, statement: FrameStatement) -> ItemScore:
        """Return the score that the judge gives to ``statement``, the description of one frame (Fig. 11)."""
        index, reason = resolve_moment(statement.frame, statement.t_s, self.times)
        if index is None:
            return ItemScore("frames", f"{statement.description!r:.80}", 0.0, (), reason)
        frame = self.clip[index]
        media: Media = {"frame": [frame.part]}
        return await self._judged("frames", statement.description, FRAME_PROMPT, media, (frame.number,))

    async def segment(self, statement: SegmentStatement) -> ItemScore:
        """Return the score that the judge gives to ``statement``, the description of a span of time (Eq. 4).

        The judge sees the frames of the span in order, but at most :data:`MAX_SHOWN_FRAMES` frames. If the stated span
        does not fit the clip (:func:`resolve_span`), the score is 0, and the judge is not called.
        """
        span = (statement.first_frame, statement.last_frame, statement.start_s, statement.end_s)
        indices, reason = resolve_span(*span, self.times)
        if not indices:
            return ItemScore("segments", f"{statement.description!r:.80}", 0.0, (), reason)
        frames = [self.clip[index] for index in thinned(indices, MAX_SHOWN_FRAMES)]
        shown: list[Part] = []
        for frame in frames:
            shown += TextPart(f"{format_moment(frame.number, frame.t_s).capitalize()}:"), frame.part
        numbers = tuple(frame.number for frame in frames)
        return await self._judged("segments", statement.description, SEGMENT_PROMPT, {"frames": shown}, numbers)

    async def _judged(
        self, category: str, description: str, prompt: str, media: Media, frames: tuple[int, ...]
    ) -> ItemScore:
        texts = {"description": _plain(description)}
        task = JudgeTask(prompt, texts, yes_or_no("shown"), media=media, max_chars=MAX_DESCRIPTION_CHARS)
        verdict = await judge(NAME, task, self.caller, prefix="judge: ")
        return ItemScore(category, f"{description!r:.80}", verdict.value, frames, verdict.reason, verdict.failed)


def _plain(description: str) -> str:
    """Return the description with each point tag replaced by the text inside the tag.

    If there is no text inside the tag, the label of the tag replaces the tag. In this way, the coordinates in the tags
    are removed: the judge cannot see coordinates in a frame.
    """
    pieces: list[str] = []
    done = 0
    for tag in scan_tags(description):
        if parse_points(description[tag.start : tag.end]):
            pieces += description[done : tag.start], tag.inner or tag.label
            done = tag.end
    return "".join(pieces) + description[done:]


async def _score(case: Case) -> Verdict:
    """Return the verdict on a response about a clip; it is checked on the frames that were sampled from the clip.

    ``case`` holds the response. The model that wrote the response saw the same frames. A point is checked in its frame,
    like a point in an image.
    """
    if not parse_times(case.text):
        return Verdict(NAME, 0.0, "no moment or span of time is named")
    if case.clips > 1:
        return Verdict(NAME, None, "a time does not say which of several clips is meant", failed=True)
    (index,) = (index for index, medium in enumerate(case.question.media) if medium.frames)
    clip = [ClipFrame(frame.number, frame.t_s, media_part(frame)) for frame in case.question.media[index].frames]
    try:
        statements = await extract_statements(case.text, case.caller)
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"extraction: {error}", failed=True)
    try:
        targets = await targets_of(case)  # searches the images beside the clip, not the clip
    except (CallError, BadReply) as error:
        return Verdict(NAME, None, f"targets: {error}", failed=True)
    checker = point_checker(case, index, targets) if case.locatable else None
    has_targets = bool(targets.exist)
    return await score_temporal(statements, clip, case.caller, checker, has_targets=has_targets, pointing=case.pointing)


SCORER = Scorer(
    NAME,
    "the response speaks of times in a clip",
    _score,
    needs=(
        (lambda case: case.clips > 0, "there is no clip"),
        (
            lambda case: bool(case.points or case.pointable or parse_times(case.text)),
            "no moment is named, and there is nothing to point at",
        ),
    ),
    asks=(Asks(ROLE, (extraction.PROMPT, FRAME_PROMPT, SEGMENT_PROMPT), clips=True), *locating.ASKS),
    floor=0.7,
    is_grounding=True,
)
"""The scorer of statements on a clip.

Its floor is the minimum value of a trace (a teacher's response); traces with a lower value are not kept. The floor is
below 1, since the judge can wrongly reject a statement.
"""
