"""Computes the rewards of the two streams of the paper iVGR (§3.2, §3.3), which are two ways to answer the same
question.

In the grounded stream, the reasoning has boxes. In the textual stream, it has only words. Grounded responses are
rewarded for their boxes. The best valid grounded reasoning of a question is kept as its reference (Eq. 4). A textual
response is rewarded if it has the same content as the reference. So the grounded responses to a question are scored
first. The textual responses are then compared with the best grounded response, or with the kept reference if the
reference is better.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field, PositiveInt

from groundtrace.config.settings import OneOf, Share, settings
from groundtrace.grading.responses.response import parse_response
from groundtrace.rewards.aggregate import StreamSettings, grounded_stream, textual_stream
from groundtrace.rewards.case import Case
from groundtrace.rewards.form import BOXED_FORM, TEXTUAL_FORM, Form
from groundtrace.rewards.recipes.base import (
    BlindShares,
    Earned,
    Memory,
    Recipe,
    Reference,
    RewardedResponse,
    verdict_of,
    verdicts_of,
)
from groundtrace.rewards.registry import scorers_named
from groundtrace.rewards.scorer import Scorer
from groundtrace.rewards.scorers import boxes, boxes_named, consistency, format, outcome
from groundtrace.rewards.scorers.consistency import MIN_BOX_SCORE, consistency_scorer, is_reference
from groundtrace.rewards.streams import GROUNDED, TEXTUAL
from groundtrace.schemas.records import Question, Verdict

Stream = Callable[[tuple[Verdict, ...], StreamSettings], float | None]


_FORMS: dict[str | None, Form] = {GROUNDED: BOXED_FORM, TEXTUAL: TEXTUAL_FORM}
_BOX_FORM = OneOf(tuple(boxes.FORMS))


@settings
class IvgrSettings:
    """Holds the settings of the rewards of iVGR (§3.2, §3.3), for responses with boxes and for responses in words."""

    weights: Annotated[StreamSettings, "the weights of the terms; the paper's are 1"] = field(
        default_factory=StreamSettings
    )
    min_box_score: Annotated[
        float, Field(ge=0, lt=1), "τ: a response with a right answer and a box score above this is a reference"
    ] = MIN_BOX_SCORE
    reference_band: Annotated[
        tuple[Share, Share] | None,
        "references are responses with a box score from the first value to below the second, or to 1 (Table 8); left "
        "out: above min_box_score",
    ] = None
    archive: Annotated[
        bool, "keep the best reference of each question over the steps (Eq. 4); false: of the current step only"
    ] = True
    judgements: Annotated[PositiveInt, "the number of consistency judgements to average (Table 9: four)"] = 1
    max_apart: Annotated[
        float | None,
        "judge the texts in both orders, and leave a response unscored if the two differ by more; left out: one order",
    ] = None
    boxes: Annotated[str, _BOX_FORM, "the form of the box reward"] = "bidirectional"
    labels: Annotated[
        bool, "a box matches a gold box only if its label fits; false: positions alone decide, as in Eq. 2"
    ] = True

    def __post_init__(self) -> None:
        if self.reference_band is not None and self.reference_band[0] >= self.reference_band[1]:
            raise ValueError(f"reference_band must be two numbers in ascending order, got {list(self.reference_band)}")


@dataclass(frozen=True)
class Ivgr(Recipe):
    """Computes the rewards of the paper iVGR, which are in [0, 3] with the default weights.

    Eq. 1 and 2 give the reward of grounded responses, which have boxes. Eq. 3 gives the reward of textual responses,
    which have only words. A response has no reward if it is unknown whether it is grounded or textual (its stream).
    For their consistency reward, textual responses are compared with a reference, which is a good grounded reasoning.
    The reward of a textual response has no term for consistency in three cases:

    - The question has no gold boxes. Such a question never has a reference (App. B).
    - The question has only textual responses in this step, and no reference of an earlier step is kept.
    - The setting ``weights.consistency_weight`` is 0. The judge is then not asked (Table 5, variant 5).

    There is one deviation: not only the positions of boxes, but also their labels are compared with the gold boxes
    (:mod:`groundtrace.rewards.scorers.boxes_named`). If the setting ``labels`` is False, they are not compared, as in
    the paper.
    """

    name: ClassVar[str] = "ivgr"
    Settings: ClassVar[type] = IvgrSettings
    needs: ClassVar[dict[str, str]] = {"stream": "the stream that each response was asked for in"}
    roles: ClassVar[tuple[str, ...]] = ("judge",)
    shown: ClassVar[tuple[str, ...]] = (outcome.NAME, format.NAME, boxes.NAME, consistency.NAME)
    compares: ClassVar[bool] = True
    learns: ClassVar[bool] = True

    settings: IvgrSettings

    @property
    def runs(self) -> Sequence[Scorer]:
        """Return all scorers (checks) that the recipe may run: ``outcome``, ``format``, ``consistency`` and ``boxes``.

        There are two kinds of responses: grounded ones contain boxes, and textual ones contain only words.
        ``consistency`` compares the content of a textual response with that of a good grounded response.
        ``boxes`` is in the list only if the setting ``labels`` is True. If it is False, the boxes are scored by their
        positions alone, without this scorer.
        """
        named = (boxes_named.SCORER,) if self.settings.labels else ()
        return (*scorers_named(outcome.NAME, format.NAME, consistency.NAME), *named)

    async def score(self, cases: Sequence[Case], memory: Memory) -> list[Earned]:
        """Score the responses of both streams to one question, and return their rewards in the same order.

        The streams are two ways to answer: with boxes, or only in words.

        ``cases`` holds the responses, each with its question and the data that scorers (checks of a response) need.
        ``memory`` holds the references of earlier steps, which are good responses with boxes. Raises BudgetUsedUp if
        the run's budget for model calls is used up.
        """
        cases = [replace(case, form=_FORMS.get(case.context.stream, TEXTUAL_FORM)) for case in cases]
        scorers = scorers_named(outcome.NAME, format.NAME)
        shared = await asyncio.gather(*(verdicts_of(scorers, case) for case in cases))
        earned = [Earned(None, verdicts) for verdicts in shared]
        grounded, textual = (
            [index for index, case in enumerate(cases) if case.context.stream == stream]
            for stream in (GROUNDED, TEXTUAL)
        )
        for index, placed in zip(grounded, await self._boxes([cases[index] for index in grounded]), strict=True):
            earned[index] = self._of(grounded_stream, (*shared[index], placed))
        kept = memory.references.get(cases[0].question.id) if cases else None
        best = _better(kept, *(self._reference(cases[index].text, earned[index]) for index in grounded))
        is_dual = bool(grounded) or kept is not None
        agreed = await asyncio.gather(*(self._consistency(cases[index], best, is_dual) for index in textual))
        for index, verdict in zip(textual, agreed, strict=True):
            earned[index] = self._of(textual_stream, (*shared[index], verdict))
        return earned

    @property
    def full_reward(self) -> float:
        """Return the maximum reward of a grounded response: the sum of the weights of outcome, format and boxes."""
        weights = self.settings.weights
        return weights.outcome_weight + weights.format_weight + weights.boxes_weight

    @classmethod
    def blind_shares(
        cls, question: Question, pointable: Sequence[str], streams: Sequence[str], settings: Any = None
    ) -> BlindShares:
        """Return the share of the maximum reward that a right answer can earn without using the images, from 0 to 1.

        The share is the mean over the streams of the question; it is 1 if the question has no streams. The share of
        the textual stream is 1. If the question has gold boxes, the share of the grounded stream is 1 - (weight of the
        boxes) / (sum of the weights of outcome, format and boxes). Otherwise it is 1.

        ``streams`` are the streams of ``question``, ``grounded`` (with boxes) and ``textual`` (only in words).
        ``pointable`` is not used. ``settings`` are the settings of the recipe; None means the defaults.
        """
        weights = (settings or IvgrSettings()).weights
        total = weights.outcome_weight + weights.format_weight + weights.boxes_weight
        boxless = 1.0 - weights.boxes_weight / total if question.gold_boxes else 1.0
        shares = [boxless if stream == GROUNDED else 1.0 for stream in streams]
        return BlindShares(sum(shares) / len(shares) if shares else 1.0)

    def _of(self, stream: Stream, verdicts: tuple[Verdict, ...]) -> Earned:
        return Earned(stream(verdicts, self.settings.weights), verdicts)

    async def _boxes(self, cases: Sequence[Case]) -> tuple[Verdict, ...]:
        """Return the verdicts (results of scoring) on the boxes of all responses to one question (Eq. 2)."""
        if self.settings.labels:
            return await boxes_named.score_named_group(cases, self.settings.boxes)
        gold = cases[0].question.gold_boxes or () if cases else ()
        return boxes.score_group([case.boxes for case in cases], gold, self.settings.boxes)

    async def _consistency(self, case: Case, best: Reference | None, is_dual: bool) -> Verdict:
        """Return the verdict on whether a textual response is consistent with ``best``.

        ``best`` is the best grounded reasoning (with boxes) for the same question; None if there is none. ``is_dual``
        is whether the question has grounded responses in this training step, or a grounded reasoning that was kept in
        an earlier step. The verdict is not applicable if ``is_dual`` is False, if the weight of the consistency is 0,
        or if the question has no gold boxes. In all other cases, the value is 0 if ``best`` is None.
        """
        if not self.settings.weights.consistency_weight:
            return Verdict(consistency.NAME, None, "its weight is 0")
        if not is_dual:
            return Verdict(consistency.NAME, None, "the question is asked in words alone")
        scorer = consistency_scorer(self.settings.judgements, self.settings.max_apart)
        context = replace(case.context, reference=None if best is None else best.text)
        return await verdict_of(scorer, replace(case, context=context))

    def _reference(self, text: str, earned: Earned) -> Reference | None:
        """Return a grounded response's reasoning and box score, if the response may be a reference (§3.3), else None.

        Textual responses to the question are compared with a reference. A reference must have a valid format, a right
        answer, and a box score above the setting ``min_box_score``. If the setting ``reference_band`` is given, the box
        score must be in this band instead. ``text`` is the response, and ``earned`` holds its verdicts.
        """
        response, box_score = parse_response(text), earned.value(boxes.NAME)
        bounds = self.settings.min_box_score, self.settings.reference_band
        if box_score is None or not is_reference(response, earned.outcome, box_score, *bounds):
            return None
        return Reference(response.think or "", box_score)

    def learn(self, memory: Memory, step: Sequence[RewardedResponse]) -> Memory:
        """Return the memory after a training step: the best valid grounded reasoning of each question (iVGR Eq. 4).

        A grounded reasoning has boxes. ``memory`` holds what the recipe learnt before the step, and ``step`` holds the
        responses of the step with their rewards. If the setting ``archive`` is False, ``memory`` is returned unchanged.
        """
        if not self.settings.archive:
            return memory
        references: dict[str, Reference | None] = dict(memory.references)
        for judged in step:
            if judged.context.stream == GROUNDED:
                new = self._reference(judged.text, judged.earned)
                references[judged.question_id] = _better(references.get(judged.question_id), new)
        kept: Mapping[str, Reference] = {id: each for id, each in references.items() if each is not None}
        return replace(memory, references=kept)

    def metrics(self, memory: Memory, step: Sequence[RewardedResponse]) -> dict[str, float | None]:
        """Return two metrics of a training step, about the questions that were asked in both streams.

        The streams are two ways to answer a question: with boxes, or only in words.

        ``has_reference`` is the share of these questions that have a reference, which is a good grounded reasoning.
        ``archive_hits`` is the share of these questions whose reference is from an earlier step: the hit rate of the
        archive (iVGR Figure 4d). Both are None if no question was asked in both streams.

        ``memory`` holds the references that were kept when the responses were scored, and ``step`` holds these
        responses with their rewards.
        """
        by_question: dict[str, list[RewardedResponse]] = {}
        for judged in step:
            by_question.setdefault(judged.question_id, []).append(judged)
        has_reference, is_kept = list[bool](), list[bool]()
        for id, responses in by_question.items():
            if {GROUNDED, TEXTUAL} - {judged.context.stream for judged in responses}:
                continue
            kept, grounded = memory.references.get(id), [j for j in responses if j.context.stream == GROUNDED]
            best = _better(kept, *(self._reference(judged.text, judged.earned) for judged in grounded))
            has_reference.append(best is not None)
            is_kept.append(best is not None and best is kept)
        count = len(has_reference)
        shares = [sum(found) / count if count else None for found in (has_reference, is_kept)]
        return {"has_reference": shares[0], "archive_hits": shares[1]}


def _better(*references: Reference | None) -> Reference | None:
    """Return the reference with the highest box reward (if equal, the first one); None if there is no reference."""
    known = [reference for reference in references if reference is not None]
    return max(known, key=lambda reference: reference.box_score, default=None)
