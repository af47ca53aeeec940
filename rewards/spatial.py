"""The spatial reward: do the points lie on the objects that they name (Argos §3.1, Eq. 1–3)?

For each label a detector gives boxes, a segmenter the mask in each box (Eq. 1); a point scores 1 when it lies in one
of the masks of its label (Eq. 2), and the reward is the mean over the points (Eq. 3). Deviation: the paper takes one
box per point; a label with several instances has several boxes here, and any of their masks will do.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from inference.errors import CallError
from inference.grounding import BadReply, Mask, boxes_of_reply, masks_of_reply
from inference.models import Caller
from inference.repair import ask_for
from inference.request import Sampling
from prompts.loader import load_prompt
from schemas.geometry import Point
from schemas.messages import MediaPart, media_part
from schemas.records import Question, Verdict

NAME = "spatial"
DETECT_PROMPT, SEGMENT_PROMPT = "detect.v1", "segment.v1"
_EXACT = Sampling(max_tokens=16384)


@dataclass
class ObjectMasks:
    """The masks of labels in one question's media; each label of a medium is looked for once."""

    question: Question
    caller: Caller
    _found: dict[tuple[int, str], tuple[Mask, ...]] = field(default_factory=dict)

    async def of(self, label: str, media_index: int) -> tuple[Mask, ...]:
        """The masks of every instance of the label. Raises CallError and BadReply."""
        key = (media_index, " ".join(label.casefold().split()))
        if key not in self._found:
            self._found[key] = await self._look_for(key[1], media_index)
        return self._found[key]

    async def _look_for(self, label: str, media_index: int) -> tuple[Mask, ...]:
        medium = self.question.media[media_index]
        shown: dict[str, Sequence[MediaPart]] = {"original": [media_part(medium)]}
        boxes, _ = await ask_for(
            self.caller,
            "detector",
            load_prompt(DETECT_PROMPT).render(shown, label=label),
            _EXACT,
            lambda reply: boxes_of_reply(reply.text, label, reply.frame, medium, media_index),
        )
        if not boxes:
            return ()
        listed = json.dumps([[box.x1, box.y1, box.x2, box.y2] for box in boxes])
        masks, _ = await ask_for(
            self.caller,
            "segmenter",
            load_prompt(SEGMENT_PROMPT).render(shown, boxes=listed),
            _EXACT,
            lambda reply: masks_of_reply(reply.text, len(boxes), medium),
        )
        return masks


async def score_spatial(points: tuple[Point, ...], pointer_found_any: bool, masks: ObjectMasks) -> Verdict:
    """Eq. 3 over the points of one response.

    Without points: 0 when the pointer found an entity of the question, else unscored (there is nothing to point at). A
    label that is not detected scores its points 0. A failed detector or segmenter leaves the response unscored.
    """
    if not points:
        if pointer_found_any:
            return Verdict(NAME, 0.0, "no point, though the pointer found what the question speaks of")
        return Verdict(NAME, None, "nothing to point at")
    off: list[str] = []
    for point in points:
        if not 0 <= point.media_index < len(masks.question.media):
            off.append(f"{point.label!r} on medium {point.media_index}")
            continue
        try:
            found = await masks.of(point.label, point.media_index)
        except (CallError, BadReply) as error:
            return Verdict(NAME, None, f"{point.label!r}: {error}")
        if not any(mask.holds(point.x, point.y) for mask in found):
            what = "off its object" if found else "not detected"
            off.append(f"{point.label!r} at ({point.x:g}, {point.y:g}) {what}")
    value = 1 - len(off) / len(points)
    return Verdict(NAME, value, f"{len(points) - len(off)} of {len(points)} on their objects" + _listed(off))


def _listed(off: list[str]) -> str:
    return f"; {', '.join(off[:5])}" + (" and more" if len(off) > 5 else "") if off else ""
