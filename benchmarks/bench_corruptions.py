"""Measures the share of a teacher's faults that the pipeline rejects, and the share of right traces that it rejects.

    python benchmarks/bench_corruptions.py [--input DATA] [--faults 50] [--cleans 100] [--seed 1] [--cases FILE]

The grounded_cot pipeline runs over DATA (rendered scenes without --input) with the embedded engine in every role. The
kept traces that are right by the gold boxes are rewritten, each with one fault or with one variation that leaves it
right (``faults/``). In further runs of the whole pipeline, a scripted teacher answers with these traces, and the shards
show which were kept. Gold boxes are used to plant the faults; the verifier never gets them.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from faults.planting import KINDS, FaultKind, Planted, asked_of, planned, script
from faults.rendered import render
from faults.right import Right, right_trace

from groundtrace.pipelines.running.plan.plan import RunArguments, make_plan
from groundtrace.pipelines.running.run import execute

PIPELINE = Path(__file__).resolve().parent.parent / "pipelines" / "grounded_cot.py"
ALL_AT_LEAST, EACH_AT_LEAST, ALARMS_BELOW = 0.99, 0.95, 0.01
KINDS_AT_LEAST, CLEAN_KINDS_AT_LEAST = 48, 12
SCENES = 1250
OVERRIDES = (
    "difficulty.include_low=true",
    "difficulty.include_high=true",
    "split.sft_ratio=1.0",
    "trace.n=1",
)


@dataclass(frozen=True)
class QuestionResult:
    """The result of a question: the text and scores of its row in the SFT set, or the reason of its rejection."""

    text: str | None
    scores: str = ""
    stage: str = ""
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Seen:
    """A planted trace and its result; ``mended`` is whether the kept row is the right trace again."""

    planted: Planted
    ended: QuestionResult
    mended: bool

    @property
    def rejected(self) -> bool:
        """Whether the trace was rejected."""
        return self.ended.text is None


class CachedRuns:
    """Runs of the pipeline over one input, with one reply cache; ``overrides`` are further settings of the runs."""

    def __init__(self, records: Path, work: Path, overrides: Sequence[str] = ()) -> None:
        self._records, self._work, self._overrides = records, work, (*OVERRIDES, *overrides)
        self.asked_as: dict[str, str] = {}

    def run(self, name: str, texts: str | None = None) -> dict[str, QuestionResult]:
        """Run the pipeline, with the teacher's script ``texts`` if given; returns each question's result by id."""
        overrides = self._overrides
        if texts is not None:
            path = self._work / f"{name}.json"
            path.write_text(texts, "utf-8")
            kind = "endpoints.scripted.kind=faults.teacher:ScriptedTeacher"
            overrides += (kind, f"endpoints.scripted.model={path}", "roles.teacher=scripted")
        folder = self._work / name
        cache = str(self._work / "cache")
        arguments = RunArguments(str(PIPELINE), str(self._records), str(folder), overrides=overrides, cache=cache)
        execute(make_plan(arguments))
        found = {}
        for row in _rows(folder / "sft", ["id", "question", "messages", "scores"]):
            self.asked_as[row["id"]] = row["question"]
            found[row["id"]] = QuestionResult(row["messages"][-1]["content"], json.dumps(row["scores"]))
        for row in _rows(folder / "rejected", ["id", "stage", "reason", "detail"]):
            found[row["id"]] = QuestionResult(None, "", row["stage"], row["reason"], row["detail"])
        return found


def _rows(folder: Path, columns: list[str]) -> list[dict]:
    return [
        row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file, columns=columns).to_pylist()
    ]


def measure(records: Path, work: Path, faults: int, cleans: int, seed: int) -> list[Seen]:
    """Return every planted trace with its result."""
    runs, asked = CachedRuns(records, work), asked_of(records)
    untouched = runs.run("untouched")
    rights: list[Right] = []
    for name, ended in sorted(untouched.items()):
        right = None if ended.text is None else right_trace(asked[name][0], ended.text)
        rights += [] if right is None else [right]
    ends = Counter(f"{ended.stage}: {ended.reason}" for ended in untouched.values() if ended.text is None)
    print(f"{len(untouched)} questions, {len(rights)} traces right by the gold boxes and kept; rejected: {dict(ends)}")
    seen = []
    for number, planted in enumerate(planned(rights, faults, cleans, seed), 1):
        digests = {name: digest for name, (_, digest) in asked.items()}
        ends = runs.run(f"run-{number}", script(planted, digests, runs.asked_as))
        for each in planted:
            ended, name = ends[each.right.asked.id], each.right.asked.id
            seen.append(Seen(each, ended, mended=ended.text == untouched[name].text))
    return seen


def share(part: int, whole: int) -> float:
    """Return ``part`` divided by ``whole``; NaN if ``whole`` is 0."""
    return part / whole if whole else float("nan")


@dataclass(frozen=True)
class KindResults:
    """The results of one kind: its planted traces that count, and the number of mended ones that do not count."""

    kind: FaultKind
    seen: tuple[Seen, ...]
    mended: int

    @property
    def rejected(self) -> int:
        """The number of rejected traces."""
        return sum(each.rejected for each in self.seen)

    @property
    def share(self) -> float:
        """The share of rejected traces."""
        return share(self.rejected, len(self.seen))

    def line(self) -> str:
        """Return the printed line, with the reasons of the rejections."""
        reasons = Counter(each.ended.reason for each in self.seen if each.rejected)
        named = ", ".join(f"{reason} {number}" for reason, number in reasons.most_common())
        mended = f"; {self.mended} mended, not counted" if self.mended else ""
        return f"{self.kind.name:46} {len(self.seen):7} {self.rejected:8} {self.share:8.2%}  {named}{mended}"


def tabled(seen: Sequence[Seen]) -> list[KindResults]:
    """Return a row for each kind. A fault that the pipeline mended when it stored the trace does not count."""
    by_kind: dict[FaultKind, list[Seen]] = defaultdict(list)
    for each in seen:
        by_kind[each.planted.kind].append(each)
    rows = []
    for kind in KINDS:
        counted = tuple(each for each in by_kind[kind] if kind.is_clean or not each.mended)
        rows.append(KindResults(kind, counted, 0 if kind.is_clean else len(by_kind[kind]) - len(counted)))
    return rows


def report(rows: Sequence[KindResults], faults: int, cleans: int) -> tuple[dict[str, object], bool]:
    """Print the tables and an example of each miss; returns the JSON line, and whether the thresholds are met."""
    for family in dict.fromkeys(kind.family for kind in KINDS):
        print(f"\n{family:46} planted rejected    share  reasons")
        for row in rows:
            if row.kind.family == family:
                print(row.line())
    wrong = [row for row in rows if not row.kind.is_clean and not row.kind.is_judged and len(row.seen) >= faults]
    right = [row for row in rows if row.kind.is_clean and len(row.seen) >= cleans]
    for row in rows:
        _example(row)
    planted = [each for row in rows if not row.kind.is_clean and not row.kind.is_judged for each in row.seen]
    caught = share(sum(each.rejected for each in planted), len(planted))
    worst = min(wrong, key=lambda row: row.share, default=None)
    worst_clean = max(right, key=lambda row: row.share, default=None)
    good = (
        len(wrong) >= KINDS_AT_LEAST
        and len(right) >= CLEAN_KINDS_AT_LEAST
        and caught >= ALL_AT_LEAST
        and (worst is not None and worst.share >= EACH_AT_LEAST)
        and (worst_clean is not None and worst_clean.share < ALARMS_BELOW)
    )
    line = {
        "name": "corruptions",
        "ratio": round(caught, 4),
        "unit": "rejected of the faults planted",
        "planted": len(planted),
        "kinds": len(wrong),
        "worst_kind": worst and worst.kind.name,
        "worst_share": worst and round(worst.share, 4),
        "clean": sum(len(row.seen) for row in right),
        "clean_kinds": len(right),
        "worst_clean_kind": worst_clean and worst_clean.kind.name,
        "worst_clean_share": worst_clean and round(worst_clean.share, 4),
    }
    return line, good


def _example(row: KindResults) -> None:
    """Print one trace with the wrong result."""
    missed = next((each for each in row.seen if each.rejected == row.kind.is_clean), None)
    if missed is None:
        return
    asked, ended = missed.planted.right.asked, missed.ended
    verdict = f"rejected: {ended.reason}: {ended.detail}" if missed.rejected else f"kept: {ended.scores}"
    text = missed.planted.text if len(missed.planted.text) < 3000 else missed.planted.text[:3000] + " [cut]"
    print(
        f"\n[{row.kind.family}: {row.kind.name}] {asked.id}: {asked.question} (gold {asked.answer})\n{text}\n{verdict}"
    )


def _write_cases(seen: Sequence[Seen], path: Path) -> None:
    lines = []
    for each in seen:
        planted, ended = each.planted, each.ended
        fields = {"family": planted.kind.family, "kind": planted.kind.name, "id": planted.right.asked.id}
        fields |= {"rejected": each.rejected, "mended": each.mended, "reason": ended.reason, "detail": ended.detail}
        fields |= {"question": planted.right.asked.question, "gold": planted.right.asked.answer, "text": planted.text}
        lines.append(json.dumps(fields | {"kept_text": ended.text, "scores": ended.scores}, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", "utf-8")


def main() -> None:
    """Plant the faults, run the pipeline, and print the JSON line.

    The exit code is 1 if too few faults or too many right traces are rejected.
    """
    parser = argparse.ArgumentParser(description="Run the pipeline with a teacher that makes faults.")
    parser.add_argument("--input", type=Path, help="a folder with records.jsonl whose records have boxes")
    parser.add_argument("--faults", type=int, default=50, help="how many of each kind of fault")
    parser.add_argument("--cleans", type=int, default=100, help="how many of each kind of clean variation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="the folder of the runs and their replies (default: temporary)")
    parser.add_argument("--cases", type=Path, help="a file for every planted trace and its end, one JSON object a line")
    arguments = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        work, records = arguments.work or Path(name), arguments.input or Path(name) / "scenes"
        work.mkdir(parents=True, exist_ok=True)
        if arguments.input is None:
            render(records, SCENES, arguments.seed)
        seen = measure(records, work, arguments.faults, arguments.cleans, arguments.seed)
        if arguments.cases is not None:
            _write_cases(seen, arguments.cases)
    line, good = report(tabled(seen), arguments.faults, arguments.cleans)
    print(json.dumps(line | {"wall_s": round(time.perf_counter() - started, 1)}))
    sys.exit(not good)


if __name__ == "__main__":
    main()
