"""Deduplication: exact by media, question and answer; near by picture and question together (SAIL-RL App. A.1).

In: drafts. Out: one draft of each set of duplicates, the one whose id hashes lowest; the others are rejected and name
it. Records with different gold answers or choices are never merged. A perceptual hash only proposes near duplicates;
each is confirmed on pixels before it counts.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection, TaggedOutput

from schemas.ordering import order_key
from schemas.reasons import Reason
from schemas.records import Draft, Question
from stages.ingest_records import MediaRoots
from stages.plumbing.calling import REJECTED, reject, split
from stages.plumbing.metrics import count_in, count_kept, count_rejected
from vision.hashing import hamming, same_image

STAGE = "dedup"
# Words whose upper case says nothing. Names (AB and ab), units (mW and MW) and LaTeX (\\Delta and \\delta) keep theirs,
# the more so in answers, where SHOUTED words do too.
_ANSWER_WORD = re.compile(r"(?<![\w\\])[^\W\d_][^\W\dA-Z_]{2,}(?!\w)")
_WORD = re.compile(r"(?<![\w\\])(?:[^\W\d_][^\W\dA-Z_]+|[A-Z]{4,})(?!\w)")
BANDS = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))


@dataclass(frozen=True)
class DedupSettings:
    """``near`` turns near duplicates on; ``max_distance`` is the most bits by which their hashes may differ (at most
    4).
    """

    near: bool = True
    max_distance: int = 4

    def __post_init__(self) -> None:
        if not 0 <= self.max_distance < len(BANDS):
            raise ValueError(f"dedup.max_distance must be 0 to {len(BANDS) - 1}, got {self.max_distance}")


def question_key(question: Question) -> str:
    """Drafts can only be duplicates when this is equal: normalised question, answer and choices, and gold boxes where
    they are the answer.
    """
    answers = (question.answer, *(question.choices or ()))
    parts = [_fold(question.question, _WORD), question.answer_type, *(_fold(text, _ANSWER_WORD) for text in answers)]
    if question.answer_type == "boxes":
        parts += sorted(map(repr, question.gold_boxes or ()))
    return order_key("\x00".join(parts))


def _fold(text: str, words: re.Pattern[str]) -> str:
    return " ".join(words.sub(lambda word: word.group().lower(), text).split())


@dataclass
class KeptPictures:
    """The media of the drafts kept so far among those of one question, found again by exact or near hash."""

    exact: dict[tuple[str, ...], str] = field(default_factory=dict)
    banded: dict[tuple[int, int], list[Question]] = field(default_factory=dict)

    def add(self, question: Question) -> None:
        """Keep the question."""
        self.exact[_pixels(question)] = question.id
        for key in _bands(question):
            self.banded.setdefault(key, []).append(question)

    def near(self, question: Question, max_distance: int) -> Iterator[Question]:
        """Kept questions whose pictures all hash within ``max_distance`` bits, once each (by bands)."""
        seen: set[str] = set()
        for key in _bands(question):
            for other in self.banded.get(key, ()):
                if other.id not in seen and _close(question, other, max_distance):
                    seen.add(other.id)
                    yield other


def find_duplicates(
    drafts: Iterable[Draft], settings: DedupSettings, same: Callable[[Question, Question], bool]
) -> Iterator[tuple[Draft, Reason | None, str]]:
    """Each draft of one :func:`question_key` with None, or the reason and the id of the kept one.

    ``same`` confirms on pixels. The result depends on ids and content, not on the order of the drafts.
    """
    kept = KeptPictures()
    for draft in sorted(drafts, key=lambda draft: order_key(draft.id)):
        question = draft.question
        if _pixels(question) in kept.exact:
            yield draft, Reason.DUPLICATE, kept.exact[_pixels(question)]
            continue
        near = kept.near(question, settings.max_distance) if settings.near else ()
        twin = next((other.id for other in near if same(question, other)), None)
        if twin is not None:
            yield draft, Reason.NEAR_DUPLICATE, twin
            continue
        kept.add(question)
        yield draft, None, ""


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
        """Emit the kept drafts of one question, and a rejection for each of the others."""
        for draft, reason, kept_id in find_duplicates(group[1], self._settings, self._same):
            count_in(STAGE)
            if reason is None:
                count_kept(STAGE)
                yield draft
            else:
                rejected = reject(draft, STAGE, reason, f"of {kept_id!r}")
                count_rejected(rejected)
                yield TaggedOutput(REJECTED, rejected)

    def _same(self, a: Question, b: Question) -> bool:
        pictures = [(x.pictures, y.pictures) for x, y in zip(a.media, b.media, strict=True)]
        if any(len(x) != len(y) for x, y in pictures):
            return False
        pairs = (pair for x, y in pictures for pair in zip(x, y, strict=True))
        return all(same_image(self._store.pixels(x), self._store.pixels(y)) for x, y in pairs)


@dataclass
class RemoveDuplicates(beam.PTransform):
    """Keep one draft of each set of duplicates; see the module."""

    settings: DedupSettings
    roots: MediaRoots

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, drafts: PCollection) -> Any:
        """``kept`` drafts and ``rejected``."""
        grouped = drafts | "KeyByQuestion" >> beam.Map(_keyed) | "SameQuestion" >> beam.GroupByKey()
        return split(grouped, "FindDuplicates", _FindDuplicates(self.settings, self.roots))
