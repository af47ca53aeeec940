"""Drawing questions for a target of N rows, so that the outcome depends on ids and replies alone.

:class:`DrawQuestions` lets the questions whose ids hash below a threshold pass to the model calls; the others are
rejected as not_drawn. :class:`CutToTarget` keeps the first N verified drafts by that hash; what is beyond the last kept
one is rejected, as over_quota on the SFT side and as not_drawn on the RL side, so that it does not matter how many
questions were drawn beyond those needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection, TaggedOutput

from schemas.ordering import order_key
from schemas.reasons import Reason
from schemas.records import Draft, Rejected
from stages.plumbing.calling import REJECTED, MapDrafts, reject, split
from stages.plumbing.metrics import count_in, count_kept, count_rejected

STAGE = "draw"
CUT_STAGE = "cut"
_STAND_IN = "#0"  # no record's id ends like this: ingest refuses such ids


@dataclass(frozen=True)
class Draw:
    """What one pass over the input draws.

    ``below`` is the hash threshold as hexadecimal digits ("": all questions), ``target_sft`` the number of SFT rows to
    end with (None: as many as there are). ``last`` is False for a pass that is repeated with more questions should it
    fall short of the target.
    """

    below: str = ""
    target_sft: int | None = None
    last: bool = True


def is_drawn(question_id: str, below: str | None) -> bool:
    """Whether the id's hash lies below the threshold; "" and None draw every question."""
    return not below or order_key(question_id) < below


def stand_in(draft: Draft) -> Iterator[Draft]:
    """For a question with several media a draft that holds these and nothing else.

    Which media belong together must not depend on which questions were drawn and in the band, or a larger draw could
    move a question to the other split. A question with one medium ties nothing together and needs no stand-in.
    """
    if len(draft.question.media) > 1:
        bare = replace(draft.question, id=draft.id + _STAND_IN, question="", answer="", choices=None, gold_boxes=None)
        yield Draft(replace(bare, opened_choices=None))


def is_record(draft: Draft) -> bool:
    """Whether the draft is of a record of the input, not made by :func:`stand_in`."""
    return not draft.id.endswith(_STAND_IN)


def limit_of(keys: list[str], target: int, last: bool) -> tuple[str | None, str | None]:
    """The largest hash that stays on the SFT and on the RL side (None: no limit), from the lowest SFT hashes.

    A pass that falls short and will be repeated keeps nothing on the RL side: rubrics mined there would be thrown away.
    """
    if len(keys) >= target:
        limit = sorted(keys)[target - 1]
        return limit, limit
    return None, None if last else ""


@dataclass
class DrawQuestions(beam.PTransform):
    """Let the drawn questions pass; see the module. In: drafts before the first model call."""

    below: str | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and ``rejected``."""
        below = self.below

        def draw(draft: Draft) -> Draft | Rejected:
            if is_drawn(draft.id, below):
                return draft
            return reject(draft, STAGE, Reason.NOT_DRAWN, f"{order_key(draft.id)[:8]} is not below {(below or '')[:8]}")

        return split(drafts, "Draw", MapDrafts(STAGE, draw))


class _Cut(beam.DoFn):
    """Keep the drafts up to a side's limit; without a target all of them, uncounted."""

    def __init__(self, side: int, reason: Reason, target: int | None) -> None:
        self._side, self._reason, self._target = side, reason, target

    def process(self, draft: Draft, limits: tuple[str | None, str | None]) -> Iterator[object]:
        """Emit the draft, or its rejection."""
        if self._target is None:
            yield draft
            return
        count_in(CUT_STAGE)
        limit = limits[self._side]
        if limit is None or order_key(draft.id) <= limit:
            count_kept(CUT_STAGE)
            yield draft
        else:
            rejected = reject(draft, CUT_STAGE, self._reason, f"beyond the first {self._target} SFT rows")
            count_rejected(rejected)
            yield TaggedOutput(REJECTED, rejected)


@dataclass
class CutToTarget(beam.PTransform):
    """Cut both sides to the target; see the module.

    In: ``sft``, the verified drafts, and ``rl``, those of the RL side before rubrics are mined on them. A
    ``target_sft`` of None leaves both as they are.
    """

    target_sft: int | None = None
    last: bool = True

    def __post_init__(self) -> None:
        super().__init__()
        if self.target_sft is not None and self.target_sft < 1:
            raise ValueError(f"the target must be at least 1 SFT row, got {self.target_sft}")

    def expand(self, sides: Any) -> Any:
        """``sft``, ``rl`` and ``rejected``."""
        limits: Any = (None, None) if self.target_sft is None else self._limits(sides["sft"], self.target_sft)
        sft = self._cut(sides["sft"], "CutSft", _Cut(0, Reason.OVER_QUOTA, self.target_sft), limits)
        rl = self._cut(sides["rl"], "CutRl", _Cut(1, Reason.NOT_DRAWN, self.target_sft), limits)
        rejected = (sft[REJECTED], rl[REJECTED]) | "Rejected" >> beam.Flatten()
        return {"sft": sft.kept, "rl": rl.kept, REJECTED: rejected}

    def _limits(self, sft: PCollection, target: int) -> Any:
        last = self.last
        limits: Any = (
            sft
            | "Keys" >> beam.Map(lambda draft: order_key(draft.id)).with_output_types(str)
            | "LowestKeys" >> beam.combiners.Top.Smallest(target)
            | "Limits" >> beam.Map(lambda keys: limit_of(keys, target, last))
        )
        return AsSingleton(limits)

    @staticmethod
    def _cut(drafts: PCollection, name: str, cut: _Cut, limits: Any) -> Any:
        typed = beam.ParDo(cut, limits).with_output_types(Draft)
        outputs: Any = drafts | name >> typed.with_outputs(REJECTED, main="kept")
        outputs[REJECTED].element_type = Rejected
        return outputs
