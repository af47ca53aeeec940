"""What the verifier catches of faults planted in right traces, and how often it rejects right ones.

    python benchmarks/bench_corruptions.py [--input DATA] [--count 1000] [--seed 1]

The embedded engine proposes, points and traces on DATA (rendered scenes without --input); the traces that are right by
the gold boxes get one fault each and go through the verifier at its default settings. Pointer and detector are
different algorithms. Gold boxes plant faults and judge the truth; the verifier never sees them.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
from faulty_traces import FAULTS, Case, is_on, planted
from scenes import COLOURS, GROUND

from inference.embedded import embedded_endpoints, embedded_roles
from inference.models import Models
from inference.session import Session
from inference.settings import ModelsSettings
from rewards.aggregate import gated
from rewards.case import case_of
from rewards.locating import ObjectMasks, Served, served_by
from rewards.verifier import verify
from schemas.geometry import Box
from schemas.input_record import InvalidRecord, parse_record
from schemas.records import Attempt, Draft, RawRecord
from stages.generate_traces import TraceSettings, trace
from stages.ingest_records import assemble, check_medium
from stages.point_entities import point
from stages.propose_entities import ProposeSettings, propose
from stages.verify_traces import VerifySettings, good_traces
from vision.clips import VideoSettings
from vision.media import MediaStore

SETTINGS = VerifySettings()
CAUGHT_AT_LEAST, ALARMS_BELOW = 0.99, 0.01
AT_ONCE = 64
T = TypeVar("T")


def ingested(folder: Path, records: int, rng: random.Random) -> list[tuple[Draft, tuple[Box, ...]]]:
    """Drafts of records, at random, whose one image has gold boxes in any record, with all objects known of it."""
    store = MediaStore(str(folder), str(folder))
    lines = (folder / "records.jsonl").read_text("utf-8").splitlines()
    parsed, objects = [], defaultdict(dict)
    for number, line in enumerate(lines, 1):
        try:
            found = parse_record(RawRecord(number, line))
        except InvalidRecord:
            continue
        if len(found.media) == 1:
            parsed.append(found)
            objects[found.media[0]].update({(b.label, b.x1, b.y1, b.x2, b.y2): b for b in found.boxes or ()})
    drafts = []
    known = [found for found in parsed if objects[found.media[0]]]
    for found in rng.sample(known, len(known)):
        medium = check_medium(found.media[0], store, video=None)
        draft = assemble(found, {found.media[0]: medium})
        if isinstance(draft, Draft):
            drafts.append((draft, tuple(objects[found.media[0]].values())))
        if len(drafts) == records:
            break
    return drafts


async def traced(draft: Draft, gold: tuple[Box, ...], models: Models) -> Case | None:
    """The embedded engine's first trace, as the pipeline's stages make it; None where it names nothing to point at."""
    session = Session(models)
    begun = replace(draft, attempts=(Attempt("", None, None, "", ""),))
    proposed = await propose(begun, session, ProposeSettings())
    if not isinstance(proposed, Draft):
        return None
    pointed = await point(proposed, session, VideoSettings())
    done = await trace(pointed, session, TraceSettings(n=1, temperature=0.0))
    return Case(done, done.traces[0], gold)


@dataclass(frozen=True)
class Seen:
    """A case after verification; ``pointed`` are the (verifier's, true) views of its points."""

    case: Case
    kept: bool
    kept_without_judge: bool
    failing: tuple[str, ...]
    pointed: tuple[tuple[bool, bool], ...]


async def verified(case: Case, models: Models, served: Served) -> Seen:
    """The verifier's word on a case, with and without the reasoning judge."""
    masks = ObjectMasks(case.question, Session(models), served)
    under_test = case_of(case.trace, masks, case.draft.entities or (), case.draft.pointable)
    found = await verify(under_test, SETTINGS.gate)
    scored = replace(case.trace, verdicts=found.verdicts, score=found.score)
    others = tuple(verdict for verdict in scored.verdicts if verdict.name != "reasoning")
    without = replace(scored, verdicts=others, score=gated(others, SETTINGS.gate))
    failing = tuple(verdict.name for verdict in scored.verdicts if verdict.value is not None and verdict.value < 1)
    views = [json.loads(text) for v in scored.verdicts if v.name == "spatial" for text in v.evidence]
    views = [view for view in views if "number" in view]
    on = [(view["on"], is_on(case.trace.points[view["number"] - 1], case.gold)) for view in views]
    kept, kept_without = (bool(good_traces((each,), SETTINGS)) for each in (scored, without))
    return Seen(case, kept, kept_without, failing, tuple(on))


def render(folder: Path, records: int, rng: np.random.Generator) -> None:
    """Scenes of squares, circles and triangles of 14 to 26 pixels, each with a counting question and its gold boxes."""
    (folder / "images").mkdir(parents=True)
    lines = []
    for number in range(records):
        pixels, boxes = np.full((100, 400, 3), GROUND, np.uint8), []
        for cell in rng.permutation(33)[: rng.integers(4, 14)]:
            side, colour = int(rng.integers(14, 27)), str(rng.choice(list(COLOURS)))
            left, top = (int(at) + int(rng.integers(1, 32 - side)) for at in (cell % 11 * 36, cell // 11 * 33))
            kind = str(rng.choice(["square", "circle", "triangle"]))
            _draw(pixels, kind, COLOURS[colour], left, top, side)
            boxes.append({"label": f"{colour} {kind}", "bbox": [left, top, left + side, top + side]})
        asked = str(rng.choice([rng.choice(boxes)["label"], f"{rng.choice(list(COLOURS))} object"]))
        colour, noun = asked.split()
        gold = [box for box in boxes if box["label"] == asked or (noun == "object" and box["label"].startswith(colour))]
        path = f"images/{number:06d}.png"
        cv2.imwrite(str(folder / path), cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
        fields = {"id": f"scene-{number:06d}", "source": "rendered", "license": "CC0-1.0", "media": [path]}
        fields |= {"question": f"How many {asked}s are there?", "answer": str(len(gold)), "boxes": gold}
        lines.append(json.dumps(fields | {"answer_type": "numeric"}))
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def _draw(pixels: np.ndarray, kind: str, colour: tuple[int, int, int], left: int, top: int, side: int) -> None:
    region = pixels[top : top + side, left : left + side]
    if kind == "square":
        region[:] = colour
    elif kind == "circle":
        ys, xs = np.mgrid[0:side, 0:side] - (side - 1) / 2
        region[xs**2 + ys**2 <= (side / 2) ** 2] = colour
    else:
        corners = [[side // 2, 0], [side - 1, side - 1], [0, side - 1]]
        region[:] = cv2.fillPoly(np.ascontiguousarray(region), [np.array(corners, np.int32)], colour)


async def in_turns(work: Sequence[Awaitable[T]]) -> list[T]:
    """The results in order, some at once."""
    results: list[T] = []
    for start in range(0, len(work), AT_ONCE):
        results += await asyncio.gather(*work[start : start + AT_ONCE])
    return results


async def measure(folder: Path, count: int, seed: int) -> tuple[list[Case], list[Seen], dict[str, list[Seen]]]:
    """All traces, those that are right after verification, and the faulty ones by kind."""
    rng = random.Random(seed)
    settings = ModelsSettings(
        tuple(embedded_endpoints().items()), tuple(embedded_roles().items()), ":memory:", str(folder), str(folder)
    )
    served = served_by(settings)
    models = Models(settings, cached=False)
    try:
        drafts = ingested(folder, max(count, 200), rng)
        cases = [case for case in await in_turns([traced(*each, models) for each in drafts]) if case is not None]
        right = await in_turns([verified(case, models, served) for case in cases if case.is_right()])
        faulty = list(planted([seen.case for seen in right if seen.kept], count, rng))
        seen = await in_turns([verified(case, models, served) for _, case in faulty])
    finally:
        await models.close()
    by_kind: dict[str, list[Seen]] = {name: [] for name in FAULTS}
    for (name, _), each in zip(faulty, seen, strict=True):
        by_kind[name].append(each)
    return cases, right, by_kind


def share(part: int, whole: int) -> float:
    """Part of the whole; NaN of nothing."""
    return part / whole if whole else float("nan")


def report(
    cases: Sequence[Case], right: Sequence[Seen], by_kind: dict[str, list[Seen]], count: int
) -> tuple[dict[str, object], bool]:
    """Print the tables; the figures for the JSON line, and whether they are as good as they must be."""
    print(f"{len(cases)} traces, {len(right)} of them right by the gold boxes")
    print(f"{'planted fault':28} {'planted':>7} {'caught':>7} {'share':>7} {'no judge':>8}  scorers below 1")
    for name, seen in by_kind.items():
        row = _row(seen)
        below = Counter(scorer for each in seen for scorer in each.failing)
        named = ", ".join(f"{scorer} {number}" for scorer, number in below.most_common())
        print(f"{name:28} {len(seen):7} {row[0]:7} {share(row[0], len(seen)):7.2%} {row[1]:8}  {named}")
    faulty = [each for seen in by_kind.values() for each in seen]
    caught, without = _row(faulty)
    alarms, alarms_without = _row(right)
    print(f"{'all':28} {len(faulty):7} {caught:7} {share(caught, len(faulty)):7.2%} {without:8}")
    print(f"{'false alarms on right traces':28} {len(right):7} {alarms:7} {share(alarms, len(right)):7.2%} "
          f"{alarms_without:8}")  # fmt: skip
    views = Counter(view for each in (*right, *faulty) for view in each.pointed)
    precision = share(views[True, True], views[True, True] + views[True, False])
    recall = share(views[True, True], views[True, True] + views[False, True])
    print(f"point on its object, {views.total()} points: precision {precision:.2%}, recall {recall:.2%}")
    good = (
        len(faulty) >= count
        and share(caught, len(faulty)) >= CAUGHT_AT_LEAST
        and share(alarms, len(right)) < ALARMS_BELOW
    )
    line = {
        "name": "corruptions",
        "ratio": round(share(caught, len(faulty)), 4),
        "unit": "caught of the faults planted",
        "planted": len(faulty),
        "without_judge": round(share(without, len(faulty)), 4),
        "right": len(right),
        "false_alarms": round(share(alarms, len(right)), 4),
        "point_precision": round(precision, 4),
        "point_recall": round(recall, 4),
    }
    return line, good


def _row(seen: Iterable[Seen]) -> tuple[int, int]:
    """How many are rejected, and how many without the judge."""
    each = list(seen)
    return sum(not one.kept for one in each), sum(not one.kept_without_judge for one in each)


def main() -> None:
    """Plant, verify, print the JSON line; exit code 1 where too little is caught or too much is rejected."""
    parser = argparse.ArgumentParser(description="Plant faults in right traces and verify them.")
    parser.add_argument("--input", type=Path, help="a folder with records.jsonl whose records have boxes")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = arguments.input or Path(name)
        if arguments.input is None:
            render(folder, max(arguments.count, 200), np.random.default_rng(arguments.seed))
        line, good = report(*asyncio.run(measure(folder, arguments.count, arguments.seed)), arguments.count)
    print(json.dumps(line | {"wall_s": round(time.perf_counter() - started, 1)}))
    sys.exit(not good)


if __name__ == "__main__":
    main()
