"""Measures which fixed traces the pipeline keeps: traces of authors who had not seen the verifier when they wrote them.

    python benchmarks/bench_traces.py [--traces FILE] [--show]

Each trace of ``traces/*.jsonl`` is a clean one or has one fault. It goes through the grounded_cot pipeline as the trace
of a scripted teacher, with the embedded engine in every other role. Its question and image are in ``traces/``, too. The
images are NLVR's (lil-lab/nlvr, CC-BY-4.0). ``--show`` prints each clean trace that is lost and each fault that is
kept. Exit code 1 if a list is worse than its kept figures.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_corruptions import CachedRuns, QuestionResult
from faults.teacher import ENTITIES, script_key
from PIL import Image

FOLDER = Path(__file__).resolve().with_name("traces")
KEPT = {"stranger_2026_11_28": (1, 7), "other_stranger_2026_11_28": (19, 18)}
"""The most clean traces that are lost, and the most faults that are kept, of each list."""
_GAP_X, _GAP_Y = 120, 50
"""A place between the boxes of NLVR's images, where no shape is."""


def lines(path: Path) -> list[dict]:
    """Return the objects of a file with one JSON object in each line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write_input(folder: Path, traces: list[dict]) -> dict[str, str]:
    """Write one record for each trace, and return the teacher's script.

    Each record has an image of its own: its number is in the lowest bits of some grey pixels, so that no record is a
    duplicate of another one.
    """
    questions = {each["id"]: each for each in lines(FOLDER / "questions.jsonl")}
    (folder / "images").mkdir(parents=True)
    records, script = [], {}
    for number, trace in enumerate(traces):
        asked = questions[trace["question_id"]]
        pixels = np.array(Image.open(FOLDER / "images" / asked["image"]).convert("RGB"))
        bits = np.array([number >> bit & 1 for bit in range(16)], np.uint8)
        pixels[_GAP_Y, _GAP_X : _GAP_X + 16, 0] ^= bits
        name = f"images/{trace['id']}.png"
        Image.fromarray(pixels).save(folder / name)
        fields = {key: asked[key] for key in ("question", "answer", "answer_type", "choices", "boxes")}
        records.append({"id": trace["id"], "source": "traces", "license": "CC-BY-4.0", "media": [name], **fields})
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        script[script_key(digest, asked["question"])] = trace["text"]
        script[script_key(digest, asked["question"], ENTITIES)] = json.dumps({"entities": asked["entities"]})
    (folder / "records.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records), "utf-8")
    return script


def ends_of(traces: list[dict], work: Path) -> dict[str, QuestionResult]:
    """Run the pipeline on the traces, and return the result of each by its id."""
    script = write_input(work / "input", traces)
    return CachedRuns(work / "input", work, ("dedup.near=false", "open_choices=false")).run("run", json.dumps(script))


def show(traces: list[dict], ends: dict[str, QuestionResult]) -> None:
    """Print each trace with the wrong result."""
    for trace in traces:
        ended = ends[trace["id"]]
        if (ended.text is not None) != trace["is_clean"]:
            verdict = f"{ended.stage}: {ended.reason}: {ended.detail}" if ended.text is None else ended.scores
            print(f"\n{trace['id']} ({trace['kind']}): {verdict}\n{trace['text']}")


def main() -> None:
    """Run the lists, and print a JSON line for each."""
    parser = argparse.ArgumentParser(description="Run the pipeline on fixed traces.")
    parser.add_argument("--traces", type=Path, nargs="*", default=sorted(FOLDER.glob("*stranger_*.jsonl")))
    parser.add_argument("--show", action="store_true", help="print each trace with the wrong result")
    arguments = parser.parse_args()
    is_good = True
    for path in arguments.traces:
        started, traces = time.perf_counter(), lines(path)
        with tempfile.TemporaryDirectory(prefix="bench-") as work:
            ends = ends_of(traces, Path(work))
        if arguments.show:
            show(traces, ends)
        clean = [ends[each["id"]].text is not None for each in traces if each["is_clean"]]
        faulty = [ends[each["id"]].text is None for each in traces if not each["is_clean"]]
        lost, passed = clean.count(False), faulty.count(False)
        most_lost, most_passed = KEPT.get(path.stem, (lost, passed))
        is_good &= lost <= most_lost and passed <= most_passed
        print(
            json.dumps(
                {
                    "name": f"traces ({path.stem})",
                    "ratio": round(sum(faulty) / len(faulty), 4),
                    "unit": "rejected of the faults",
                    "faults": len(faulty),
                    "passed": passed,
                    "clean": len(clean),
                    "lost": lost,
                    "wall_s": round(time.perf_counter() - started, 1),
                }
            )
        )
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
