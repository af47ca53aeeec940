"""Selects (draws) the questions for a run that has to make exactly N SFT rows, by the hashes of the questions' ids.

A draft is a question with its data. :class:`DrawQuestions` keeps the drafts whose id hash is below a threshold, before
any model is called. It rejects all other drafts as not_drawn. Later, the drafts are divided into two sides: the drafts
of the SFT side become SFT rows, and those of the RL side become RL rows. :class:`CutToTarget` keeps the N verified SFT
drafts with the lowest id hashes. The highest id hash of these N drafts is the limit. All drafts with a higher hash are
rejected: SFT drafts as over_quota, and RL drafts as not_drawn. If the threshold is higher than needed, more questions
are drawn, but the same N drafts have the lowest hashes. So the result depends only on the ids and on the models'
replies.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton, PCollection

from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.keeping import OVER_QUOTA
from groundtrace.stages.plumbing.metrics import count_in
from groundtrace.stages.plumbing.stage import (
    REJECTED,
    DraftStage,
    Reject,
    Stage,
    Work,
    apply,
    kept_output,
    rejected_output,
)

NOT_DRAWN = "not_drawn"


def is_drawn(question_id: str, below: str | None) -> bool:
    """Return whether a question is used in this pass over the input, i.e. whether the hash of its id is below the
    threshold ``below``. A run repeats the pass with a higher threshold if it needs more questions.

    ``below`` is in hexadecimal digits. If it is "" or None, every question is used.
    """
    return not below or order_key(question_id) < below


def limit_of(keys: list[str], target: int, last: bool) -> tuple[str | None, str | None]:
    """Return the largest id hash of the SFT rows to keep, and the largest id hash of the RL rows to keep.

    None means that all rows are kept.

    ``target`` is the wanted number of SFT rows. ``keys`` are the id hashes of the drafts (questions with their data)
    that can become SFT rows; the ``target`` lowest of these hashes suffice. A run reads the input in one or more
    passes, and uses only the rows of the final pass. ``last`` is True if no further pass may follow this pass. There
    are three cases:

    - If there are at least ``target`` hashes, each limit is the highest of the ``target`` lowest hashes. E.g. for the
      hashes "1a", "5c" and "9e" and a ``target`` of 2, each limit is "5c".
    - If there are fewer hashes and ``last`` is True, both limits are None.
    - If there are fewer hashes and ``last`` is False, a further pass follows, and the rows of this pass are discarded.
      The SFT limit is None. The RL limit is "", so this pass keeps no RL rows. The purpose is that no later stage
      mines rubrics (grading criteria) for rows that are discarded.
    """
    if len(keys) >= target:
        limit = sorted(keys)[target - 1]
        return limit, limit
    return None, None if last else ""


def draw(draft: Draft, below: str | None) -> Draft:
    """Return the draft (a question with its data) if the hash of its id is below the threshold ``below``; otherwise
    raise :class:`Reject`.

    ``below`` is in hexadecimal digits. If it is "" or None, every draft is returned.
    """
    if is_drawn(draft.id, below):
        return draft
    raise Reject(NOT_DRAWN, f"the id's hash {order_key(draft.id)[:8]} is not below the threshold {(below or '')[:8]}")


DRAW = Stage(
    "draw",
    "questions are drawn for the wanted number of SFT rows, in the order of a hash of their ids",
    reasons={NOT_DRAWN: "not drawn for this run's target"},
    for_target=True,
)
CUT = Stage(
    "cut",
    "rows beyond the wanted number are left out",
    reasons={NOT_DRAWN: "not drawn for this run's target", OVER_QUOTA: "left over by a quota or ratio"},
    joins=True,
    for_target=True,
)


@dataclass
class DrawQuestions(DraftStage):
    """Stage (pipeline step) that keeps only a part of the questions, for a run that has to make a fixed number of SFT
    rows.

    A question is kept if the hash of its id is below the threshold ``below`` (a text of hexadecimal digits). If
    ``below`` is "" or None, every question is kept. Recipes put this stage before their first model call, so that no
    model is called for the other questions.
    """

    below: str | None = None
    stage = DRAW

    def work(self) -> Work:
        """Return the function to run on each draft (a question with its data). The function rejects the draft if the
        hash of its id is not below the threshold ``below`` (:func:`draw`).
        """
        return partial(draw, below=self.below)


class _Cut(beam.DoFn):
    """Keeps the drafts (questions with their data) whose id hash is at most a limit, and rejects the others.

    ``side`` is 0 for drafts that become SFT rows, and 1 for drafts that become RL rows. Each side has its own limit
    (:func:`limit_of`). ``reason`` is the reason of a rejection. ``target`` is the wanted number of SFT rows. If it is
    None, all drafts pass, and the figures of the stage :class:`CutToTarget` do not count them.
    """

    def __init__(self, side: int, reason: str, target: int | None) -> None:
        self._side, self._reason, self._target = side, reason, target

    def process(self, draft: Draft, limits: tuple[str | None, str | None]) -> Iterator[object]:
        """Emit the draft (a question with its data) if it is kept; otherwise emit its rejection.

        ``limits`` are two id hashes, the first for drafts that become SFT rows, the second for drafts that become RL
        rows. A draft is kept if the hash of its id is at most the limit for its kind of row, or if this limit is None.
        """
        if self._target is None:
            yield draft
            return
        count_in(CUT.name)
        limit = limits[self._side]
        if limit is None or order_key(draft.id) <= limit:
            yield kept_output(CUT, draft)
        else:
            why = Reject(self._reason, f"beyond the first {self._target} SFT rows")
            yield rejected_output(CUT.rejected(draft, why, draft.calls))


@dataclass
class CutToTarget(DraftStage):
    """Stage (pipeline step) that keeps a wanted number of SFT drafts (questions with their data): the ``target_sft``
    drafts whose ids have the lowest hashes.

    RL drafts are kept if their hash is not above the highest hash of the kept SFT drafts. The input is a mapping of two
    collections: ``sft`` has the verified drafts that become SFT rows, and ``rl`` has the drafts that become RL rows,
    before rubrics (grading criteria) are mined on them. If ``target_sft`` is None, all drafts pass unchanged. ``last``
    is True in the last pass over the input (:func:`limit_of`).
    """

    target_sft: int | None = None
    last: bool = True
    stage = CUT

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_sft is not None and self.target_sft < 1:
            raise ValueError(f"target_sft must be at least 1 row, got {self.target_sft}")

    def expand(self, sides: Any) -> Any:
        """Keep the ``target_sft`` SFT drafts with the lowest hashes of their ids.

        RL drafts are kept if the hash of their id is not above the highest hash of the kept SFT drafts.

        ``target_sft`` is the wanted number of SFT rows, and a draft is a question with its data. ``sides`` maps ``sft``
        to the drafts that become SFT rows, and ``rl`` to the drafts that become RL rows. The result maps ``sft`` and
        ``rl`` to the kept drafts, and ``rejected`` to the rejections of all other drafts. If ``target_sft`` is None,
        all drafts are kept. :func:`limit_of` describes what is kept if there are too few SFT drafts.
        """
        limits: Any = (None, None) if self.target_sft is None else self._limits(sides["sft"], self.target_sft)
        sft = apply(sides["sft"], "CutSft", _Cut(0, OVER_QUOTA, self.target_sft), limits)
        rl = apply(sides["rl"], "CutRl", _Cut(1, NOT_DRAWN, self.target_sft), limits)
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
