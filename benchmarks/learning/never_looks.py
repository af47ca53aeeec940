"""Computes what a policy answers, and where it points, that knows every question but never looks at an image.

The policy has read the questions, answers and gold boxes of other scenes. To a question of the same wording it gives
the most frequent answer; to a question of a new wording it gives the most frequent answer of its type. It points at the
cells of the image that most often hold an object of a label, and at so many of them that its F1 on the scenes that it
has read is the highest. So a model that is above this policy looks at the images.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from benchmarks.learning.held import COUNTED, Counts
from benchmarks.learning.scenes import CELL_PX
from groundtrace.grading.input_record import InputRecord

Place = tuple[str, int, int]
"""A label, and the column and row of a cell."""


class NeverLooks:
    """Answers by the wording of a question, as the records of other scenes suggest."""

    def __init__(self, read: Iterable[InputRecord]) -> None:
        """Count the answers and the places of gold boxes in the records ``read``."""
        self._answers: dict[str, Counter[str]] = defaultdict(Counter)
        self._by_type: dict[str, Counter[str]] = defaultdict(Counter)
        self._places: dict[str, Counter[Place]] = defaultdict(Counter)
        self._asked: Counter[str] = Counter()
        for record in read:
            self._asked[record.question] += 1
            self._answers[record.question][record.answer] += 1
            self._by_type[record.answer_type][record.answer] += 1
            self._places[record.question].update(_places(record))
        self._least = self._best_share()

    def answer(self, record: InputRecord) -> str:
        """Return the answer to the record's question."""
        known = self._answers.get(record.question) or self._by_type[record.answer_type]
        return known.most_common(1)[0][0]

    def points(self, question: str) -> set[Place]:
        """Return the places at which the policy points for a question."""
        asked = self._asked[question]
        return {place for place, times in self._places[question].items() if times / asked >= self._least}

    def _best_share(self) -> float:
        """Return the share of a wording's scenes from which on pointing at a place gives the highest F1."""
        shares = [(n / self._asked[q], n, self._asked[q]) for q, each in self._places.items() for n in each.values()]
        shares.sort(reverse=True)
        found, given = np.cumsum([n for _, n, _ in shares]), np.cumsum([asked for _, _, asked in shares])
        best = int(np.argmax(2 * found / (given + found[-1])))
        return shares[best][0]

    def counts(self, held: Mapping[str, InputRecord], questions: int = 0) -> Counts:
        """Return the counts of the policy for each scene, over the first ``questions`` records (0: over all)."""
        records = list(held.values())[: questions or None]
        scenes = {media: number for number, media in enumerate(dict.fromkeys(record.media for record in records))}
        found = np.zeros((len(scenes), len(COUNTED)), dtype=np.int64)
        for record in records:
            gold, pointed = _places(record), self.points(record.question)
            row = dict.fromkeys(COUNTED, 0) | {
                "answers": 1,
                "right": self.answer(record) == record.answer,
                "boxes": len(gold),
                "answers with boxes": bool(gold),
                "points": len(pointed),
                "points in boxes": len(gold & pointed),
                "boxes found": len(gold & pointed),
                "exact": bool(gold) and gold == pointed,
            }
            found[scenes[record.media]] += np.array([row[name] for name in COUNTED], dtype=np.int64)
        return found


def constant_accuracy(held: Mapping[str, InputRecord]) -> float:
    """Return the share of right answers of the best constant answer for each answer type."""
    by_type: dict[str, Counter[str]] = defaultdict(Counter)
    for record in held.values():
        by_type[record.answer_type][record.answer] += 1
    return sum(each.most_common(1)[0][1] for each in by_type.values()) / len(held)


def _places(record: InputRecord) -> set[Place]:
    """Return the label and the cell of each gold box; every object is within one cell."""
    return {(box.label, int(box.x1 // CELL_PX), int(box.y1 // CELL_PX)) for box in record.boxes or ()}
