"""Splits the questions into an SFT side, which becomes SFT rows, and an RL side, which becomes RL rows. No image is on
both sides.

The inputs are drafts (questions with their data). The outputs are ``sft`` and ``rl`` drafts, and an empty ``rejected``.
Two questions are connected if they have a medium with the same hash of decoded pixels. A media group is a connected
component of questions. A hash of the group's name decides on which side all questions of the group are. So the
share of groups on the SFT side equals the setting ``sft_ratio`` on average, and neither input order nor worker count
can change the side of a question.

Earlier stages may select the drafts to split, for example by the pass rates of the questions. The groups must not
depend on this selection. Otherwise a question could change its side if more questions were selected. The stage
therefore has an optional second input: all drafts before the selection. A question in this input that has several media
joins these media into one group, even if the question itself was not selected.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import apache_beam as beam

from groundtrace.config.settings import Share, settings
from groundtrace.schemas.coding import record
from groundtrace.schemas.media_groups import media_groups
from groundtrace.schemas.ordering import unit_hash
from groundtrace.schemas.records import Draft
from groundtrace.stages.plumbing.metrics import count_in
from groundtrace.stages.plumbing.stage import DraftStage, Route, Stage, apply, kept_output

SFT, RL = "sft", "rl"


@settings
class SplitSettings:
    """Holds the share of media groups (questions connected by common images) on the SFT side, and the seed of the
    split.
    """

    sft_ratio: Annotated[Share, "the share of media groups on the SFT side"] = 0.7
    seed: Annotated[int, "the seed of the split"] = 0


def split_side(group: str, settings: SplitSettings) -> str:
    """Return the training set to which a media group (questions connected by common images) goes: ``sft`` or ``rl``.

    ``group`` is the name of the group. A hash of the name decides, so that equal names always get the same training
    set. ``settings`` holds the share of the groups that go to ``sft``.
    """
    return SFT if unit_hash(group, settings.seed, "split") < settings.sft_ratio else RL


@record
class SplitPart:
    """Holds one of two facts about a question: its draft (the question with its data), or the name of its media group
    (the questions connected by common images). The field of the other fact is None.

    Beam joins the two parts (objects of this class) of each question by the question's id.
    """

    draft: Draft | None = None
    group: str | None = None


def _draft_part(draft: Draft) -> tuple[str, SplitPart]:
    return draft.id, SplitPart(draft=draft)


def _group_part(named: tuple[str, str]) -> tuple[str, SplitPart]:
    question_id, group = named
    return question_id, SplitPart(group=group)


Use = tuple[str | None, tuple[str, ...]]
"""A question's id, and the hashes of the decoded pixels of its media.

The id is None in a value that only joins the media into one group, and does not assign a question to the group.
"""


def _use(draft: Draft) -> tuple[str, Use]:
    return "all", (draft.id, tuple(medium.pixel_sha256 for medium in draft.question.media))


def _tie(draft: Draft) -> Iterator[tuple[str, Use]]:
    """Yield a value which states that the media of a draft (a question with its data) belong to one media group, i.e.
    to one group of questions connected by common images.

    The value is ``("all", (None, hashes))``. "all" is a constant key, with which Beam brings all values to one worker.
    ``hashes`` are the pixel hashes of the draft's media. Nothing is yielded for a draft with fewer than two media.

    This function is called for all drafts, also for those that an earlier stage left out. Such a draft connects images,
    but its question must not become a part of the group. So the value has None in place of the question's id. For the
    drafts that are not left out, :func:`_use` yields further values, which have the ids.
    """
    hashes = tuple(medium.pixel_sha256 for medium in draft.question.media)
    if len(hashes) > 1:
        yield "all", (None, hashes)


def _groups(keyed: tuple[str, Iterable[Use]]) -> Iterator[tuple[str, str]]:
    yield from media_groups(keyed[1])


class _Route(beam.DoFn):
    def __init__(self, settings: SplitSettings) -> None:
        self._settings = settings

    def process(self, joined: tuple[str, Iterable[SplitPart]]) -> Iterator[object]:
        count_in(STAGE.name)
        parts = list(joined[1])
        drafts = [part.draft for part in parts if part.draft is not None]
        groups = [part.group for part in parts if part.group is not None]
        if len(drafts) != 1 or len(groups) != 1:
            raise ValueError(
                f"SplitByMediaGroup got {len(drafts)} drafts and {len(groups)} media groups for the id {joined[0]}, "
                "but needs one of each: let the recipe pass each draft to this stage once"
            )
        yield kept_output(STAGE, Route(split_side(groups[0], self._settings), drafts[0]))


STAGE = Stage("split", "questions go to the SFT or the RL side, so that no image is on both", settings=SplitSettings)


@dataclass
class SplitByMediaGroup(DraftStage):
    """Stage (pipeline step) that splits the drafts (questions with their data) into an SFT side and an RL side, so that
    no image is on both sides.

    The input is a collection of drafts to split, or a pair of collections: the drafts to split, and all drafts from
    which these were selected. One worker finds the groups of connected questions. This worker holds only ids and hashes
    in memory.
    """

    settings: SplitSettings
    stage = STAGE

    def expand(self, drafts: Any) -> Any:
        """Split the drafts (questions with their data), and return the outputs ``sft`` (drafts that become SFT rows),
        ``rl`` (drafts that become RL rows) and ``rejected``, which is empty.

        ``drafts`` is the collection to split. If earlier stages have selected these drafts from more drafts, it may be
        a pair of collections: the drafts to split, and all drafts before the selection.
        """
        chosen, all_drafts = drafts if isinstance(drafts, tuple) else (drafts, None)
        uses = chosen | "MediaOfEach" >> beam.Map(_use).with_output_types(tuple[str, Use])
        if all_drafts is not None:
            ties = all_drafts | "MediaOfSeveral" >> beam.FlatMap(_tie).with_output_types(tuple[str, Use])
            uses = (uses, ties) | "Uses" >> beam.Flatten()
        groups = uses | "AllMedia" >> beam.GroupByKey() | "MediaGroups" >> beam.FlatMap(_groups)
        parts = (chosen | "KeyById" >> beam.Map(_draft_part), groups | "GroupById" >> beam.Map(_group_part))
        joined: Any = parts | "Parts" >> beam.Flatten() | "JoinGroup" >> beam.GroupByKey()
        return apply(joined, "Route", _Route(self.settings), sft=Draft, rl=Draft)
