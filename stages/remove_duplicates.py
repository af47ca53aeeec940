"""Removes exact duplicates and near duplicates of questions (SAIL-RL App. A.1).

Exact duplicates have the same media, question and answer. Near duplicates have the same question and answer, and nearly
the same images. The inputs are drafts (questions with their data). Of each set of duplicates, the draft with the lowest
hash of its id is kept. All other drafts of the set are rejected, and the details of their rejections name the kept
draft. Questions with different gold answers or choices are never duplicates. A perceptual hash proposes near
duplicates. A comparison of pixels then confirms or refutes each proposal.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from pydantic import Field

from groundtrace.config.settings import settings
from groundtrace.grading.answers.registry import answer_type_named
from groundtrace.schemas.ordering import order_key
from groundtrace.schemas.records import Draft, Question
from groundtrace.stages.plumbing.metrics import count_in
from groundtrace.stages.plumbing.stage import DraftStage, Reject, Stage, apply, kept_output, rejected_output
from groundtrace.vision.hashing import hamming, same_image
from groundtrace.vision.media import MediaRoots

DUPLICATE, NEAR_DUPLICATE = "duplicate", "near_duplicate"
# The patterns match words whose upper case has no meaning. They do not match names (AB and ab), units (mW and MW) and
# LaTeX (\\Delta and \\delta). In answers, words of capitals alone are not matched either.
_ANSWER_WORD = re.compile(r"(?<![\w\\])[^\W\d_][^\W\dA-Z_]{2,}(?!\w)")
_WORD = re.compile(r"(?<![\w\\])(?:[^\W\d_][^\W\dA-Z_]+|[A-Z]{4,})(?!\w)")
_GAP = re.compile(r"\s+(?=[?!.,;:](?:\s|$))")
"""Matches the spaces before a punctuation mark, as in "How many cats ?"."""
BANDS = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))


@settings
class DedupSettings:
    """Holds the settings that determine which questions are duplicates of each other."""

    near: Annotated[bool, "also reject near duplicates of an image"] = True
    max_distance: Annotated[
        int, Field(ge=0, lt=len(BANDS)), "the maximum number of bits by which the hashes of near duplicates differ"
    ] = 4


def question_key(question: Question) -> str:
    """Return a hash of the normalised question, answer and choices. It is equal for all questions that may be
    duplicates.

    The hash does not depend on the media. It depends on the gold boxes only if boxes are the answer.
    """
    answers = (question.answer, *(question.choices or ()))
    parts = [_fold(question.question, _WORD), question.answer_type, *(_fold(text, _ANSWER_WORD) for text in answers)]
    if answer_type_named(question.answer_type).is_boxes:
        parts += sorted(map(repr, question.gold_boxes or ()))
    return order_key("\x00".join(parts))


def _fold(text: str, words: re.Pattern[str]) -> str:
    return " ".join(_GAP.sub("", words.sub(lambda word: word.group().lower(), text)).split())


@dataclass
class KeptImages:
    """Holds the questions that are already kept, and compares a new question with them, to find its duplicates.

    All these questions have equal wording, answer and choices (:func:`question_key`). Duplicates also have equal or
    nearly equal media.

    ``exact`` maps the pixel hashes of a question's media to the question's id. ``banded`` is an index for a fast search
    for near duplicates. The 64-bit perceptual hash of a question's first medium is divided into 5 parts. Each key of
    ``banded`` is a pair: the number of a part, and the bits in this part. Its value is the list of the questions with
    these bits in this part. The index finds all near duplicates. Their hashes differ in at most 4 bits, so at least one
    of the 5 parts is equal.
    """

    exact: dict[tuple[str, ...], str] = field(default_factory=dict)
    banded: dict[tuple[int, int], list[Question]] = field(default_factory=dict)

    def add(self, question: Question) -> None:
        """Add a question that is kept, so that later questions are compared with it."""
        self.exact[_pixels(question)] = question.id
        for key in _bands(question):
            self.banded.setdefault(key, []).append(question)

    def near(self, question: Question, max_distance: int) -> Iterator[Question]:
        """Yield each kept question whose media (images) look nearly like the media of ``question``, according to their
        perceptual hashes.

        Media are nearly the same if their hashes differ in at most ``max_distance`` bits. Questions with different
        numbers of media are not compared.
        """
        seen: set[str] = set()
        for key in _bands(question):
            for other in self.banded.get(key, ()):
                if other.id not in seen and _close(question, other, max_distance):
                    seen.add(other.id)
                    yield other


def find_duplicates(
    drafts: Iterable[Draft], settings: DedupSettings, same: Callable[[Question, Question], bool]
) -> Iterator[tuple[Draft, Reject | None]]:
    """Yield each draft (a question with its data) with its rejection if it is a duplicate, or with None if it is kept.

    All ``drafts`` have the same question, answer and choices (:func:`question_key`). ``same`` is a function that
    compares the pixels of two questions' images. It returns True if the images are equal, apart from re-encoding and
    scale. ``settings`` determines whether nearly equal images count, and how similar they must be. The result depends
    on ids and content, not on the order of the drafts.
    """
    kept = KeptImages()
    for draft in sorted(drafts, key=lambda draft: order_key(draft.id)):
        question = draft.question
        if _pixels(question) in kept.exact:
            yield draft, Reject(DUPLICATE, f"of {kept.exact[_pixels(question)]!r}")
            continue
        near = kept.near(question, settings.max_distance) if settings.near else ()
        twin = next((other.id for other in near if same(question, other)), None)
        if twin is not None:
            yield draft, Reject(NEAR_DUPLICATE, f"of {twin!r}")
            continue
        kept.add(question)
        yield draft, None


def _pixels(question: Question) -> tuple[str, ...]:
    return tuple(medium.pixel_sha256 for medium in question.media)


def _bands(question: Question) -> list[tuple[int, int]]:
    value = int(question.media[0].dhash, 16)
    return [(index, value >> start & (1 << width) - 1) for index, (start, width) in enumerate(BANDS)]


def _close(a: Question, b: Question, max_distance: int) -> bool:
    return len(a.media) == len(b.media) and all(
        hamming(int(x.dhash, 16), int(y.dhash, 16)) <= max_distance for x, y in zip(a.media, b.media, strict=True)
    )


def _keyed(draft: Draft) -> tuple[str, Draft]:
    return question_key(draft.question), draft


class _FindDuplicates(beam.DoFn):
    def __init__(self, settings: DedupSettings, roots: MediaRoots) -> None:
        self._settings, self._roots = settings, roots

    def setup(self) -> None:
        self._store = self._roots.store()

    def process(self, group: tuple[str, Iterable[Draft]]) -> Iterator[object]:
        """Emit the kept drafts of one group, and a rejection for each other draft of the group.

        A group is a pair: a key, and all drafts (questions with their data) with this key. The key is a hash of
        question, answer and choices (:func:`question_key`).
        """
        for draft, why in find_duplicates(group[1], self._settings, self._same):
            count_in(STAGE.name)
            if why is None:
                yield kept_output(STAGE, draft)
            else:
                yield rejected_output(STAGE.rejected(draft, why, draft.calls))

    def _same(self, a: Question, b: Question) -> bool:
        uris = [(x.image_uris, y.image_uris) for x, y in zip(a.media, b.media, strict=True)]
        if any(len(x) != len(y) for x, y in uris):
            return False
        pairs = (pair for x, y in uris for pair in zip(x, y, strict=True))
        return all(same_image(self._store.pixels(x), self._store.pixels(y)) for x, y in pairs)


STAGE = Stage(
    "dedup",
    "the same question on the same image is kept once",
    reasons={
        DUPLICATE: "same media, question and answer as a kept record",
        NEAR_DUPLICATE: "same question and answer on an image confirmed to be the same as a kept one's",
    },
    settings=DedupSettings,
)


@dataclass
class RemoveDuplicates(DraftStage):
    """Stage (pipeline step) that keeps one draft (a question with its data) of each set of duplicates.

    ``roots`` holds the data folder and the run folder. Duplicates have the same question, answer and choices, and equal
    images. If the setting ``near`` is on, nearly equal images are enough.
    """

    settings: DedupSettings
    roots: MediaRoots
    stage = STAGE

    def expand(self, drafts: PCollection) -> Any:
        """Group the drafts (questions with their data) by question, answer and choices, find duplicates in each group,
        and keep one draft of each set of duplicates.

        Returns two outputs: ``kept`` has the kept drafts, and ``rejected`` has a rejection for each other draft.
        """
        grouped = drafts | "KeyByQuestion" >> beam.Map(_keyed) | "SameQuestion" >> beam.GroupByKey()
        return apply(grouped, "FindDuplicates", _FindDuplicates(self.settings, self.roots))
