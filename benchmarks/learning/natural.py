"""Measures what verified data is worth with natural faults: its traces are sampled from a half-trained model.

    python benchmarks/learning/natural.py --seeds 0 1 2 3 4
    python benchmarks/learning/natural.py --data RECORDS --held RECORDS --image-side 128 --set batch.max_tokens=640 \
        --first-rows 900 --first-steps 800

A model is fine-tuned for some steps (200, or ``--first-steps``) on some of a run's SFT rows (1,800, or
``--first-rows``). It then answers each question of the other rows eight times. The pipeline's verifier checks every
trace, and models of random weights learn from what is left:

    verified            all traces that the verifier keeps
    right answers only  all traces with the gold answer
    all                 all traces
    … of equal rows     as many traces of each of the three, drawn at random: as many as the smallest of them has

``--data`` and ``--held`` name folders of records with images of drawn shapes, which the embedded engine can read.
"""

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.learning import prepared  # noqa: E402
from benchmarks.learning.held import counts, read_held  # noqa: E402
from benchmarks.learning.kept import Kept, keep, read_kept  # noqa: E402
from benchmarks.learning.pool import VerifiedText, engine_masks, judged, rows_of, write_rows  # noqa: E402
from benchmarks.learning.reinforce_report import table  # noqa: E402
from benchmarks.learning.training import EXAMS, Trainings, Untrained, hash_of, in_parallel, texts_of  # noqa: E402

VERIFIED, RIGHT_ONLY, ALL = "verified", "right answers only", "all"
EQUAL = " of equal rows"
ARMS = (VERIFIED, RIGHT_ONLY, ALL, VERIFIED + EQUAL, RIGHT_ONLY + EQUAL, ALL + EQUAL)
PAIRS = tuple((VERIFIED + rows, other + rows) for rows in ("", EQUAL) for other in (RIGHT_ONLY, ALL))
FIRST_ROWS, FIRST_STEPS, STEPS, SAMPLES = 1800, 200, 600, 8
AT_ONCE = 64


@dataclass(frozen=True)
class SampledTrace:
    """Holds a sampled trace of a question, and the decision of the verifier."""

    id: str
    judged: VerifiedText


def main() -> int:
    """Run the unfinished parts of the experiment, and print its tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "learn")
    parser.add_argument("--data", type=Path, help="a folder of records; left out: rendered scenes")
    parser.add_argument("--held", type=Path, help="a folder of held-out records; left out: rendered scenes")
    parser.add_argument("--image-side", type=int, default=64, help="images are shrunk to this number of pixels squared")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument(
        "--first-steps", type=int, default=FIRST_STEPS, help="steps of SFT of the model that writes the traces"
    )
    parser.add_argument("--first-rows", type=int, default=FIRST_ROWS, help="SFT rows from which this model learns")
    parser.add_argument("--jobs", type=int, default=2, help="parallel trainings, each on one thread")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", help="a setting for every trainer command"
    )
    chosen = parser.parse_args()
    if (chosen.data is None) != (chosen.held is None):
        parser.error("set both --data and --held, or none of them")
    output = chosen.output.resolve()
    data = chosen.data or prepared.scenes(output, "train", 2200, prepared.TRAIN_SEED)
    held = chosen.held or prepared.scenes(output, "held", 1050, prepared.HELD_SEED)
    trainings = Trainings(output, tuple(chosen.overrides), chosen.image_side)
    experiment = Natural(trainings, data.resolve(), held.resolve(), chosen.first_steps, chosen.first_rows)
    for seed in chosen.seeds:
        traces = experiment.traces(seed)
        print(f"seed {seed}: {', '.join(f'{len(of_arm(traces, arm, seed))} {arm}' for arm in ARMS[:3])}", flush=True)
        in_parallel([partial(experiment.arm, arm, traces, seed) for arm in ARMS], chosen.jobs)
    for how in ("greedy", "sampled"):
        print("\n".join(table(read_kept(experiment.results), how, ARMS, PAIRS)), end="\n\n")
    return 0


def of_arm(traces: Sequence[SampledTrace], arm: str, seed: int) -> list[SampledTrace]:
    """Return the traces from which an arm learns, in the order of ``traces``."""
    kept = [trace for trace in traces if trace.judged.is_kept]
    right = [trace for trace in traces if trace.judged.is_right]
    found = {VERIFIED: kept, RIGHT_ONLY: right, ALL: list(traces)}
    if arm in found:
        return found[arm]
    rows = min(map(len, found.values()))
    places = random.Random(seed).sample(range(len(found[arm.removesuffix(EQUAL)])), rows)
    return [found[arm.removesuffix(EQUAL)][place] for place in sorted(places)]


class Natural:
    """Samples the traces, and trains and examines the arms."""

    def __init__(self, trainings: Trainings, data: Path, held: Path, first_steps: int, first_rows: int) -> None:
        """Run the pipeline over the records ``data``, if the run is missing.

        The model that writes the traces learns from ``first_rows`` SFT rows in ``first_steps`` steps.
        """
        self._trainings, self._data, self._held = trainings, data, held
        self._first_steps, self._first_rows = first_steps, first_rows
        self._run = prepared.curated(trainings.output, data)
        self._texts = texts_of(self._run)
        after = "" if first_steps == FIRST_STEPS else f"-after-{first_steps}-steps"
        after += "" if first_rows == FIRST_ROWS else f"-on-{first_rows}-rows"
        self.results = trainings.output / f"natural-{data.name}{after}"

    def traces(self, seed: int) -> list[SampledTrace]:
        """Return the distinct traces that the half-trained model sampled, with the verifier's decision on each.

        They are sampled and verified once, and then read from a file.
        """
        ids = rows_of(self._run)["id"].to_pylist()
        random.Random(seed).shuffle(ids)
        first, asked = ids[: self._first_rows], ids[self._first_rows :]
        if not asked:
            raise SystemExit(f"the run has only {len(ids)} SFT rows, and none is left to answer: lower --first-rows")
        steps = f"sft.steps={self._first_steps}"
        half = self._trainings.learnt("sft", seed, self._rows(first), self._untrained(seed), steps)
        self._trainings.train(half)
        sampled = self._trainings.examine(half, self._rows(asked), "sampled", f"eval.samples={SAMPLES}")
        path = sampled.with_name("verified.jsonl")
        if not path.is_file():
            found = asyncio.run(self._verified(sampled))
            path.write_text("".join(json.dumps(asdict(trace)) + "\n" for trace in found), "utf-8")
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        return [SampledTrace(line["id"], VerifiedText(**line["judged"])) for line in lines]

    def arm(self, name: str, traces: Sequence[SampledTrace], seed: int) -> None:
        """Train and examine the model of an arm, and keep its result."""
        chosen = [(trace.id, trace.judged.text) for trace in of_arm(traces, name, seed)]
        model = self._trainings.learnt("sft", seed, self._written(chosen), self._untrained(seed), f"sft.steps={STEPS}")
        self._trainings.train(model)
        records = read_held(self._held)
        exams = {how: counts(self._trainings.examine(model, self._held, how), records) for how in EXAMS}
        seconds = json.loads(self._trainings.clock(model).read_text("utf-8"))
        keep(self.results, Kept(name, seed, model.key, model.settings, seconds, exams, {}))
        print(f"done: {name}, seed {seed}", flush=True)

    def _untrained(self, seed: int) -> Untrained:
        return self._trainings.make_untrained(seed, self._texts)

    def _rows(self, ids: Sequence[str]) -> Path:
        """Return a folder with the run's SFT rows of these ids."""
        rows = rows_of(self._run).select(["id", "messages"]).to_pylist()
        texts = {row["id"]: row["messages"][-1]["content"] for row in rows}
        return self._written([(id, texts[id]) for id in ids])

    def _written(self, chosen: Sequence[tuple[str, str]]) -> Path:
        folder = self._trainings.output / "data" / f"rows-{hash_of(list(chosen))}"
        if not list((folder / "sft").glob("*.parquet")):
            write_rows(self._run, chosen, folder)
        return folder

    async def _verified(self, sampled: Path) -> list[SampledTrace]:
        """Return the distinct sampled traces with the decision of the pipeline's verifier on each."""
        lines = [json.loads(line) for line in sampled.read_text("utf-8").splitlines()]
        texts = list(dict.fromkeys((line["id"], line["text"]) for line in lines))
        rows = {row["id"]: row for row in rows_of(self._run).select(["id", "entities", "pointable"]).to_pylist()}
        found: list[SampledTrace] = []
        async with engine_masks(self._data) as masks_of:

            async def verified(id: str, text: str) -> SampledTrace:
                named = tuple(rows[id]["entities"]), tuple(rows[id]["pointable"])
                return SampledTrace(id, await judged(text, masks_of(id), *named))

            for start in range(0, len(texts), AT_ONCE):
                found += await asyncio.gather(*(verified(*each) for each in texts[start : start + AT_ONCE]))
        return found


if __name__ == "__main__":
    sys.exit(main())
