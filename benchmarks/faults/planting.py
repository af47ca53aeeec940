"""Decides which fault or variation is planted into which trace, and in which run."""

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults import clean, form, labels, pixels, prose
from faults.right import Plant, QuestionWithTruth, Right
from faults.teacher import script_key
from groundtrace.schemas.geometry import Box
from groundtrace.vision.decode import decode_image

MAX_ROUNDS = 12
FAMILIES: dict[str, Mapping[str, Plant]] = {
    "pixels": pixels.KINDS,
    "labels": labels.KINDS,
    "form": form.KINDS,
    "prose": prose.KINDS,
    "judge": prose.JUDGE_ONLY,
    "clean": clean.KINDS,
}


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault, or of clean variation, of a family."""

    family: str
    name: str

    @property
    def is_clean(self) -> bool:
        """Whether a trace of this kind is still right."""
        return self.family == "clean"

    @property
    def is_judged(self) -> bool:
        """Whether only a judge that reads prose can find this fault."""
        return self.family == "judge"

    @property
    def plant(self) -> Plant:
        """The function that writes this kind into a trace."""
        return FAMILIES[self.family][self.name]


KINDS = tuple(FaultKind(family, name) for family, kinds in FAMILIES.items() for name in kinds)


@dataclass(frozen=True)
class Planted:
    """A response into which a fault or a variation was written."""

    right: Right
    kind: FaultKind
    text: str


def asked_of(folder: Path) -> dict[str, tuple[QuestionWithTruth, str]]:
    """Return, by id, each record with one image: its question with the truth about the image, and the image file's
    SHA-256.

    The objects of an image are those of all its records, because a counting question only has the boxes that it counts.
    """
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text("utf-8").splitlines()]
    records = [record for record in records if len(record["media"]) == 1]
    objects: dict[str, dict[Box, None]] = defaultdict(dict)
    for record in records:
        objects[record["media"][0]].update(dict.fromkeys(_boxes(record)))
    found = {}
    for record in records:
        path = folder / record["media"][0]
        height, width = decode_image(path.read_bytes()).pixels.shape[:2]
        counts = record["answer_type"] == "numeric" and record["question"].lower().startswith("how many")
        known = tuple(objects[record["media"][0]])
        asked = QuestionWithTruth(
            record["id"], record["question"], record["answer"], width, height, known, _boxes(record) if counts else None
        )
        found[record["id"]] = asked, hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _boxes(record: dict) -> tuple[Box, ...]:
    found = ((box["label"], [float(value) for value in box["bbox"]]) for box in record.get("boxes") or ())
    return tuple(Box(label, x1, y1, x2, y2) for label, (x1, y1, x2, y2) in found)


def planned(rights: Sequence[Right], faults: int, cleans: int, seed: int) -> list[list[Planted]]:
    """Return rounds in which each trace has at most one fault or variation, until each kind has the requested number.

    Of the kinds that can be planted in a trace, it gets the one that has the fewest traces so far; no kind is planted
    twice in the same trace.
    """
    order = random.Random(seed).sample(list(rights), len(rights))
    missing = {kind: cleans if kind.is_clean else faults for kind in KINDS}
    had: set[tuple[str, FaultKind]] = set()
    rounds: list[list[Planted]] = []
    while any(missing.values()) and len(rounds) < MAX_ROUNDS:
        planted = []
        for right in order:
            for kind in sorted((k for k in KINDS if missing[k]), key=lambda k: -missing[k]):
                if (right.asked.id, kind) in had:
                    continue
                text = kind.plant(right, random.Random(f"{seed} {right.asked.id} {kind.name}"))
                if text is None or text == right.write():
                    continue
                planted.append(Planted(right, kind, text))
                had.add((right.asked.id, kind))
                missing[kind] -= 1
                break
        if not planted:
            break
        rounds.append(planted)
    return rounds


def script(planted: Iterable[Planted], digests: Mapping[str, str], asked_as: Mapping[str, str]) -> str:
    """Return the script of the teacher as JSON: its text for each image and question, by :func:`script_key`."""
    texts = {}
    for each in planted:
        name = each.right.asked.id
        texts[script_key(digests[name], asked_as[name])] = each.text
    return json.dumps(texts)
