"""Finds pseudo-boxes for questions without gold boxes (iVGR §5: off-the-shelf detectors reduce the labelling).

A pseudo-box is a box that a detector found. The inputs are drafts (questions with their data). The outputs are the same
drafts. If the record has no list of boxes, the teacher model names the things that the answer depends on, and the draft
gets the detector's boxes of these things. Later stages use these boxes as gold boxes, and every row marks them as boxes
of a detector.

A question stays without boxes in these cases:

- Its record has an empty list of boxes, which means that there is nothing to box.
- It is about a clip. A box has no field for the clip's frame.
- The teacher names no thing, or more than ``max_targets`` kinds of things.
- The detector finds more than ``max_boxes`` things. The detector cannot decide which things of a crowd the question
  means, and a shortened list would omit things.
- The detector finds too few of the kinds of things that the teacher names. For example, if the teacher names 4 kinds
  and ``min_found`` is 0.75, the detector must find at least 3 of them. With incomplete boxes, the reward (iVGR Eq. 2)
  would punish right boxes.

The teacher sees the gold answer, because it has to name the things that the answer depends on. The teacher sees no gold
box. A question whose answer consists of boxes is rejected, because this recipe has no form of response that answers
with boxes.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import PositiveInt

from groundtrace.config.settings import Share, settings
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.grading.messages import media_part, shown
from groundtrace.inference.caller import CallResult
from groundtrace.inference.errors import CallError
from groundtrace.inference.families.plain import PLAIN
from groundtrace.inference.grounding import BadReply, json_object
from groundtrace.inference.pointing import boxes_of
from groundtrace.inference.request import Sampling
from groundtrace.inference.role_calls import Asks, ask_for
from groundtrace.inference.session import Session
from groundtrace.inference.settings import ModelsSettings
from groundtrace.prompts.loader import load_prompt
from groundtrace.rewards.judge_guard import question_text
from groundtrace.rewards.locating import MAX_COVER, is_of_label
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.labels import label_fault
from groundtrace.schemas.quoting import quote
from groundtrace.schemas.records import Draft, MediaRef
from groundtrace.stages.plumbing.calling import CallingStage, Work
from groundtrace.stages.plumbing.stage import Reject, Stage

PROMPT = "name_targets.v1"
ANSWER_IS_BOXES = "answer_is_boxes"
MAX_TARGET_CHARS, MAX_QUOTED_CHARS = 120, 8000
SAME_BOX_IOU = 0.7
"""The minimum IoU (intersection over union) at which two boxes are treated as boxes of one thing.

For example, one box may have the name "car", and the other the name "red car".
"""
_EXACT = Sampling(max_tokens=16384)


@settings
class LocateSettings:
    """Holds the limits of the stage ``locate``, which gives questions pseudo-boxes (boxes that a detector finds).

    A question that does not meet ``max_targets``, ``max_boxes`` and ``min_found`` gets no boxes.
    """

    max_targets: Annotated[PositiveInt, "a question for which the teacher names more kinds gets no boxes"] = 10
    max_boxes: Annotated[PositiveInt, "a question for which the detector finds more boxes gets none"] = 32
    min_found: Annotated[Share, "a question for which a smaller share of the kinds is found gets no boxes"] = 1.0
    max_tokens: Annotated[PositiveInt, "the maximum new tokens of the teacher's reply"] = 2048


def targets_of_reply(text: str, max_targets: int) -> tuple[str, ...]:
    """Return the kinds of things that the teacher model's reply names, each once, in order.

    ``text`` is the reply. Phrases that do not name an object are left out. If more than ``max_targets`` kinds remain,
    the result is empty. Raises BadReply if the reply's field ``targets`` is not a list of texts.
    """
    names = json_object(text).get("targets")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadReply(f"the reply's field 'targets' must be a list of phrases, got {names!r:.80}")
    cleaned = (" ".join(name.split())[:MAX_TARGET_CHARS] for name in names)
    targets = tuple(dict.fromkeys(name for name in cleaned if name and label_fault(name) is None))
    return targets if len(targets) <= max_targets else ()


def pseudo_boxes(found: Sequence[tuple[Box, ...]], settings: LocateSettings) -> tuple[Box, ...] | None:
    """Return the detector's boxes for a question, with one box for each thing. Returns None if they are not usable.

    ``found`` has, for each kind of thing that the teacher model named, the detector's boxes of this kind. Boxes with an
    IoU (intersection over union) of at least :data:`SAME_BOX_IOU` are boxes of one thing, and only the first is kept.
    The boxes are not usable if the detector found too few of the kinds, or too many things. ``settings`` holds these
    limits.
    """
    if not found or sum(map(bool, found)) < settings.min_found * len(found):
        return None
    boxes: list[Box] = []
    for box in (box for each in found for box in each):
        if all(box.iou(other) < SAME_BOX_IOU for other in boxes):
            boxes.append(box)
    return tuple(boxes) if 0 < len(boxes) <= settings.max_boxes else None


def lacks_boxes(draft: Draft) -> bool:
    """Return whether the draft (a question with its data) needs boxes from the detector.

    The draft needs these boxes if its record has no list of boxes (not even an empty one) and none of its media is a
    clip.
    """
    return draft.question.gold_boxes is None and not any(medium.frames for medium in draft.question.media)


async def locate(draft: Draft, session: Session, settings: LocateSettings) -> Draft:
    """Return the draft (a question with its data) with boxes from the detector if it needs them (:func:`lacks_boxes`);
    otherwise return it unchanged.

    The teacher model first names the things that the answer depends on; ``session`` makes the calls. If the boxes are
    not usable with the limits in ``settings`` (:func:`pseudo_boxes`), the draft's field ``pseudo_boxes`` is None.
    Raises :class:`Reject` if the question's answer consists of boxes.
    """
    question = draft.question
    if answer_type_named(question.answer_type).is_boxes:
        raise Reject(ANSWER_IS_BOXES, "the gold answer consists of boxes, but neither stream answers with boxes")
    if not lacks_boxes(draft):
        return draft
    quoted = quote(question_text(question), question.answer, limit=MAX_QUOTED_CHARS)
    asked, answer = quoted.texts
    prompt = load_prompt(PROMPT).render(
        {"original": shown(question.media)},
        question=asked,
        answer=answer,
        max_targets=str(settings.max_targets),
        mark=quoted.mark,
    )

    def read(reply: CallResult) -> tuple[str, ...]:
        return targets_of_reply(reply.text, settings.max_targets)

    targets, _ = await ask_for(session, "teacher", prompt, Sampling(max_tokens=settings.max_tokens), read)
    found = await _detected(targets, question.media, session)
    return replace(draft, pseudo_boxes=pseudo_boxes(found, settings))


async def _detected(targets: Sequence[str], media: Sequence[MediaRef], session: Session) -> list[tuple[Box, ...]]:
    """Return a tuple of boxes for each target: the boxes that the detector finds for this target in all images.

    ``targets`` are the kinds of things to find, and ``media`` are the images. All requests to the detector are sent at
    the same time. The calls are added to ``session`` in the order of the requests, not of the replies.
    """
    asked = [(target, index) for target in targets for index in range(len(media))]
    sessions = [Session(session.models) for _ in asked]
    work = (_boxes_at(target, media[index], index, own) for (target, index), own in zip(asked, sessions, strict=True))
    answers = await asyncio.gather(*work, return_exceptions=True)
    # In the order of the requests, not of the replies, so that the lineage is the same in every run.
    session.calls.extend(call for own in sessions for call in own.calls)
    found = dict[str, tuple[Box, ...]](dict.fromkeys(targets, ()))
    for (target, _), answer in zip(asked, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        found[target] += answer
    return list(found.values())


async def _boxes_at(target: str, medium: MediaRef, index: int, session: Session) -> tuple[Box, ...]:
    """Return the detector's boxes of a target in one image.

    ``target`` is the name of a kind of thing, and ``index`` is the index of the image ``medium`` among the question's
    media. The result is empty if the detector does not know this name, or refuses the request because of it.

    A box over nearly the whole image is left out, because it would contain the boxes of every response, right or wrong.
    """
    try:
        found = await boxes_of(session, "detector", target, media_part(medium), medium, index, _EXACT)
    except CallError as error:
        if is_of_label(error):
            return ()
        raise
    whole_px = MAX_COVER * medium.width * medium.height
    return tuple(box for box in found.found if box.width * box.height <= whole_px)


STAGE = Stage(
    "locate",
    "where a record has no boxes, the teacher names what its answer rests on, and the detector boxes it",
    reasons={ANSWER_IS_BOXES: "the answer is boxes, which neither stream gives as an answer"},
    asks=(Asks("teacher", (PROMPT,)), Asks("detector", (PLAIN.box_prompt,), all_media=False)),
    settings=LocateSettings,
)


@dataclass
class LocateTargets(CallingStage):
    """Stage (pipeline step) that finds boxes with a detector for every question whose record has no boxes.

    ``models`` holds the settings of the run's models.
    """

    settings: LocateSettings
    models: ModelsSettings
    stage = STAGE

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function adds boxes from the
        detector if the record has no boxes (:func:`locate`).
        """
        return partial(locate, settings=self.settings)
