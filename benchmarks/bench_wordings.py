"""Counts right traces that the verifier rejects for their wording, and self-contradicting traces that it passes.

    python benchmarks/bench_wordings.py [--list NAME] [--per-clean 4] [--per-fault 2] [--labels 2]
        [--seed 1] [--cases FILE]

Questions about the shapes of data/sample, from its records or generated from its boxes, are answered in the wordings of
``wordings/*.yaml``: points, counts and answer are right by the boxes; in a fault, the words are wrong. ``gt.verify``
scores each response with the embedded engine in every role. A trace passes if its score is at least
``verify.min_score``, no verdict is below its floor, no scorer failed, and it contains no phrase of the list of leaks.
The list ``stranger`` has its own scenes (:mod:`wordings.stranger`); ``--records`` names another folder of NLVR records
for them.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from wordings.labels import labelled, mislabelled
from wordings.scenes import WordedQuestion, posed
from wordings.stranger import cases, load
from wordings.stranger_scenes import StrangerScene, images

import groundtrace as gt
from groundtrace.grading.responses.tag_prose import proses_of
from groundtrace.rewards.leaks import find_leak
from groundtrace.schemas.records import Question, Trace
from groundtrace.stages.verify_traces import VerifySettings

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "data" / "sample"
LISTS = {
    "first": ("clean.yaml", "faults.yaml"),
    "unseen": ("unseen_clean.yaml", "unseen_faults.yaml"),
    "later": ("later_clean.yaml", "later_faults.yaml"),
    "last": ("last_clean.yaml", "last_faults.yaml"),
    "fresh": ("fresh_clean.yaml", "fresh_faults.yaml"),
    "stranger": ("stranger_clean.yaml", "stranger_faults.yaml"),
}
MIN_SCORE = VerifySettings().min_score
FLOORS = VerifySettings().floors
LOST_BELOW = 0.01
Z = 1.96


@dataclass(frozen=True)
class WordedResponse:
    """A response to verify, with its kind, and the wording that it was generated from."""

    kind: str
    is_clean: bool
    wording: str
    posed: WordedQuestion | StrangerScene
    text: str


@dataclass(frozen=True)
class ResponseResult:
    """The result of a response: whether it passed, and the reason."""

    written: WordedResponse
    passed: bool
    why: str

    @property
    def is_wrong(self) -> bool:
        """Whether it is a right trace that was rejected, or a fault that passed."""
        return self.passed != self.written.is_clean


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    if not whole:
        return 0.0, 1.0
    share = part / whole
    middle = share + Z * Z / (2 * whole)
    half = Z * (share * (1 - share) / whole + Z * Z / (4 * whole * whole)) ** 0.5
    return max(0.0, (middle - half) / (1 + Z * Z / whole)), min(1.0, (middle + half) / (1 + Z * Z / whole))


def written(
    path: Path, is_clean: bool, per_wording: int, families: dict[str, list[WordedQuestion]]
) -> Iterator[WordedResponse]:
    """Yield responses in each wording of the list, for ``per_wording`` questions of its family that fill its slots."""
    turn: Counter[str] = Counter()
    for family, kinds in yaml.safe_load(path.read_text("utf-8")).items():
        for kind, wordings in kinds.items():
            for wording in wordings:
                made = 0
                for _ in range(len(families[family])):
                    asked = families[family][turn[family] % len(families[family])]
                    turn[family] += 1
                    try:
                        text = asked.trace(wording)
                    except KeyError:
                        continue
                    yield WordedResponse(f"{family}: {kind}", is_clean, wording, asked, text)
                    made += 1
                    if made == per_wording:
                        break


def names(per_form: int, families: dict[str, list[WordedQuestion]]) -> Iterator[WordedResponse]:
    """Yield responses with each form of a true and of a false label, up to ``per_form`` times."""
    for is_clean, made_of in ((True, labelled), (False, mislabelled)):
        made: Counter[tuple[str, str]] = Counter()
        for asked in families["count"]:
            for kind, form, reasoning in made_of(asked):
                if made[kind, form] < per_form:
                    made[kind, form] += 1
                    text = f"<think>{reasoning}</think><answer>{asked.answer}</answer>"
                    yield WordedResponse(f"label: {kind}", is_clean, form, asked, text)


def verified(each: WordedResponse, cache: str) -> ResponseResult:
    """Return the result of a response, from ``gt.verify`` and the list of leaks."""
    asked = each.posed
    trace = gt.verify(
        asked.question,
        each.text,
        [asked.image],
        asked.answer,
        answer_type=asked.answer_type,
        entities=asked.entities,
        cache=cache,
    )
    question = Question("q", "", "", (), asked.question, asked.answer, asked.answer_type)
    leak = next(filter(None, (find_leak(prose, question) for prose in proses_of(each.text))), None)
    return ResponseResult(each, *((False, f"leak: {leak!r}") if leak is not None else _ended(trace)))


def strangers(clean: Path, faults: Path, per_clean: int, per_fault: int, records: Path) -> Iterator[WordedResponse]:
    """Yield the traces of the list ``stranger``: each wording on ``per_clean`` or ``per_fault`` images."""
    known = images(records)
    for path, is_clean, number in ((clean, True, per_clean), (faults, False, per_fault)):
        for case in cases(load(path), known, number):
            yield WordedResponse(case.kind, is_clean, case.name, case.scene, case.response)


def _ended(trace: Trace) -> tuple[bool, str]:
    least = {verdict.name: max(MIN_SCORE, FLOORS.get(verdict.name, 0.0)) for verdict in trace.verdicts}
    low = [
        f"{v.name} {v.value:g}: {v.reason}" for v in trace.verdicts if v.value is not None and v.value < least[v.name]
    ]
    failed = [f"{verdict.name} failed: {verdict.reason}" for verdict in trace.verdicts if verdict.failed]
    passed = trace.score is not None and trace.score >= MIN_SCORE and not failed and not low
    return passed, "; ".join([*low, *failed]) or f"score {trace.score}"


def report(ended: list[ResponseResult]) -> None:
    """Print a line for each kind, with the confidence interval of its share, then each wording with a wrong result."""
    by_kind: dict[tuple[bool, str], list[ResponseResult]] = defaultdict(list)
    for each in ended:
        by_kind[(each.written.is_clean, each.written.kind)].append(each)
    for is_clean in (True, False):
        print(f"\n{'lost of the right' if is_clean else 'passed of the faults'}")
        for (clean, kind), group in by_kind.items():
            if clean == is_clean:
                wrong = sum(each.is_wrong for each in group)
                low, high = wilson(wrong, len(group))
                print(f"  {kind:48} {wrong:4} of {len(group):4}  {wrong / len(group):7.1%}  [{low:.1%}, {high:.1%}]")
    shown = set()
    for each in ended:
        if each.is_wrong and each.written.wording not in shown:
            shown.add(each.written.wording)
            print(f"\n[{each.written.kind}] {each.written.posed.question} (gold {each.written.posed.answer})")
            print(f"  {each.written.text}\n  {each.why if each.written.is_clean else 'passed'}")


def main() -> None:
    """Verify all responses, and print the tables and the JSON line.

    The exit code is 1 if a fault passes or too many right traces do not.
    """
    parser = argparse.ArgumentParser(description="Right and wrong reasoning in many wordings through gt.verify.")
    parser.add_argument("--list", choices=LISTS, default="first", help="which list of wordings")
    parser.add_argument("--per-clean", type=int, default=4, help="how many questions for each right wording")
    parser.add_argument("--per-fault", type=int, default=2, help="how many questions for each wrong wording")
    parser.add_argument("--labels", type=int, default=2, help="the approximate number of traces for each true label")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", type=Path, default=SAMPLE, help="stranger: the folder with records.jsonl")
    parser.add_argument("--cases", type=Path, help="a file for every trace and its end, one JSON object a line")
    arguments = parser.parse_args()
    started = time.perf_counter()
    families = posed(SAMPLE, random.Random(arguments.seed))
    for questions in families.values():
        random.Random(arguments.seed).shuffle(questions)
    clean, faults = LISTS[arguments.list]
    right, wrong = HERE / "wordings" / clean, HERE / "wordings" / faults
    if arguments.list == "stranger":
        todo = list(strangers(right, wrong, arguments.per_clean, arguments.per_fault, arguments.records))
    else:
        todo = list(written(right, True, arguments.per_clean, families))
        todo += names(arguments.labels, families) if arguments.list == "first" else ()
        todo += written(wrong, False, arguments.per_fault, families)
    with tempfile.TemporaryDirectory(prefix="bench-") as cache:
        ended = [verified(each, cache) for each in todo]
    report(ended)
    if arguments.cases:
        lines = [
            {"kind": e.written.kind, "clean": e.written.is_clean, "passed": e.passed, "why": e.why}
            | {"question": e.written.posed.question, "gold": e.written.posed.answer, "text": e.written.text}
            for e in ended
        ]
        arguments.cases.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    kept = [each for each in ended if each.written.is_clean]
    planted = [each for each in ended if not each.written.is_clean]
    lost, passed = sum(e.is_wrong for e in kept), sum(e.is_wrong for e in planted)
    line = {
        "name": f"wordings ({arguments.list})",
        "ratio": round(lost / len(kept), 4),
        "unit": "right traces lost",
        "clean": len(kept),
        "clean_wordings": len({each.written.wording for each in kept}),
        "lost": lost,
        "lost_interval": [round(bound, 4) for bound in wilson(lost, len(kept))],
        "faults": len(planted),
        "fault_kinds": len({each.written.kind for each in planted}),
        "passed": passed,
        "passed_interval": [round(bound, 4) for bound in wilson(passed, len(planted))],
    }
    print(json.dumps(line | {"wall_s": round(time.perf_counter() - started, 1)}))
    sys.exit(lost >= LOST_BELOW * len(kept) or passed > 0)


if __name__ == "__main__":
    main()
