"""Rows as the papers' recipes write them: drafts of the sample data, made into rows by the code that makes shards."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from groundtrace.grading.question_text import JUDGE
from groundtrace.grading.responses.traces import read_trace
from groundtrace.rewards.complexity import COMPLEXITY
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Draft, MediaRef, Question, Rubric, Trace
from groundtrace.stages.plumbing.rows import RowContext, rl_row, sft_row
from groundtrace.stages.route_by_boxes import BOTH, TEXTUAL_ONLY, asked_in
from groundtrace.vision.decode import decode_image
from tests.added import ADDED

from .runs import SAMPLE, records

IDS = ("662-1-0-c0", "662-1-0-c1", "662-1-0-c2")
RUBRICS = tuple(
    Rubric(name, "d", "c", 1.0, rate, stratum) for name, rate, stratum in (("e", 0.9, "easy"), ("h", 0.3, "hard"))
)
JUDGED = "<judge>{}</judge><think>{}</think>\\boxed{{{}}}"


def question_of(record: Mapping[str, Any]) -> Question:
    """A record of the sample data as a question with its media."""
    media = []
    for name in record["media"]:
        data = (SAMPLE / name).read_bytes()
        pixels = decode_image(data).pixels
        height, width, _ = pixels.shape
        media.append(MediaRef(f"input:{name}", "image", "", "", "", width, height, 1, len(data)))
    boxes = tuple(Box(box["label"], *map(float, box["bbox"])) for box in record["boxes"] or ())
    names = ("id", "source", "license")
    asked = (record["question"], record["answer"], record["answer_type"], record["choices"])
    return Question(*(record[name] for name in names), tuple(media), *asked, gold_boxes=boxes or None)


def drafts(*ids: str, **fields: Any) -> list[Draft]:
    """Drafts of these records with fields set."""
    return [Draft(question_of(record), **fields) for record in records(*ids)]


def traced(draft: Draft, text: str) -> Draft:
    """The draft with a verified trace."""
    trace: Trace = read_trace(0, text, draft.question.media)
    return replace(draft, traces=(trace,), best=0)


def rows_of(found: Sequence[Draft], side: str, recipe: str) -> list[dict[str, Any]]:
    """The rows of drafts, with the images' bytes as the shard writer puts them there."""
    make = {"sft": sft_row, "rl": rl_row}[side]
    context = RowContext(recipe, "abc", False, added={side: ADDED})
    rows = []
    for draft in found:
        row = make(draft, context)
        names = [uri.removeprefix("input:") for uri in row["images"]]  # type: ignore[union-attr]
        rows.append(row | {"images": [{"bytes": (SAMPLE / name).read_bytes(), "path": name} for name in names]})
    return rows


def sail_rl_drafts() -> list[Draft]:
    """Two complex questions and a simple one."""
    first, second, third = drafts(*IDS, form=JUDGE)
    return [
        first.with_added(COMPLEXITY, "complex"),
        second.with_added(COMPLEXITY, "complex"),
        third.with_added(COMPLEXITY, "simple"),
    ]


def sail_rl_traces() -> list[Draft]:
    """Their traces: thought about, or answered directly."""
    found = []
    for draft in sail_rl_drafts():
        is_simple = draft.added(COMPLEXITY) == "simple"
        said = ("A glance is enough.", "\n\n") if is_simple else ("It takes counting.", "I count each of them.")
        found.append(traced(draft, JUDGED.format(*said, draft.question.answer)))
    return found


def ivgr_drafts() -> list[Draft]:
    """Two questions with boxes in both streams, and one in words alone that has none."""
    first, second, third = drafts(*IDS)
    dual = [asked_in(draft, BOTH) for draft in (first, second)]
    bare = replace(third.question, gold_boxes=None)
    return [*dual, asked_in(replace(third, question=bare), TEXTUAL_ONLY)]


def boxed(draft: Draft, answer: str | None = None) -> str:
    """A grounded response that boxes all gold boxes."""
    boxes = " ".join(
        f'<box alt="{box.label}">[{box.x1:g},{box.y1:g},{box.x2:g},{box.y2:g}]</box>'
        for box in draft.question.gold_boxes or ()
    )
    return f"<think>I see {boxes} here.</think><answer>{answer or draft.question.answer}</answer>"


def worded(draft: Draft, answer: str | None = None) -> str:
    """A textual response."""
    return f"<think>I see what is asked for.</think><answer>{answer or draft.question.answer}</answer>"
