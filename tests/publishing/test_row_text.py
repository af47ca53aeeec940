"""The text of a row for a terminal: what it has of each set, cut lines, and escaped control characters."""

from pathlib import Path
from typing import Any

import pytest

import groundtrace as gt
from groundtrace.publishing.row_text import MAX_LINES, WIDTH, row_text


def verdict(name: str, value: float | None, failed: bool = False) -> dict[str, Any]:
    return {"name": name, "value": value, "failed": failed, "reason": "", "evidence": []}


def trace(text: str, score: float | None, *verdicts: dict[str, Any]) -> dict[str, Any]:
    return {"text": text, "answer": "4", "score": score, "verdicts": list(verdicts)}


ASKED = {"id": "q1", "question": "How many cats?", "answer": "4", "answer_type": "numeric"}
SAID = [{"role": "user", "content": "<image>How many cats?"}, {"role": "assistant", "content": "Two.\nSo 2."}]
GRADED = [{"text": "", "answer": "4", "correct": correct} for correct in (True, False, None, False)]
SFT = ASKED | {"messages": SAID, "scores": {"outcome": 1.0, "temporal": None, "final": 0.875}}
VERDICTS = [verdict("outcome", 1.0), verdict("temporal", None), verdict("reasoning", None, failed=True), None]
LOW = {"stage": "verify", "reason": "low_grounding", "detail": "best score 0.5"}
TRACES = [trace("first", None), trace("second", 0.5, verdict("spatial", 1 / 3)), trace("third", 0.0)]


@pytest.mark.parametrize(
    ("name", "values", "lines"),
    [
        (
            "sft",
            SFT | {"verdicts": VERDICTS},
            ["trace, score 0.875: outcome 1, temporal not applicable, reasoning failed", "  Two.", "  So 2."],
        ),
        ("sft", SFT, ["trace, score 0.875: outcome 1, temporal not applicable", "  Two.", "  So 2."]),
        (
            "rl",
            ASKED | {"attempts": GRADED, "choices": ["3", "4"]},
            ["choices: 3; 4", "gold answer: 4 (numeric)", "attempts: 1 right, 2 wrong, 1 unscored"],
        ),
        (
            "rejected",
            ASKED | LOW | {"traces": TRACES},
            [
                "rejected: verify: low_grounding: best score 0.5",
                "best of 3 traces, score 0.5: spatial 0.333",
                "  second",
            ],
        ),
        ("rejected", ASKED | LOW | {"traces": [TRACES[0]]}, ["trace: not verified", "  first"]),
        (
            "rl",
            ASKED
            | {"question_words": 3, "tags": ["a", "b"], "note": "word " * 40, "none": None, "turns": [{"code": "x"}]},
            ["question_words: 3", "tags: a, b", f"note: {'word ' * 18}…"],
        ),
        ("rejected", {"id": None, "reason": "unreadable_line"}, ["question: no question", "gold answer: none"]),
    ],
)
def test_what_a_row_is_shown_with(name: str, values: dict[str, Any], lines: list[str]) -> None:
    found = row_text(name, values, "mine").splitlines()
    assert found[0] == f"<{name} row {values['id']} of mine>"
    assert [line for line in found if line in lines] == lines


def test_long_texts_are_cut_and_control_characters_are_escaped() -> None:
    long = SFT | {"question": "many words " * 200, "messages": [SAID[1] | {"content": "a\n" * 20}]}
    lines = row_text("sft", long, "m").splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    assert f"  … and {20 - MAX_LINES} more lines" in lines and lines.count("  a") == MAX_LINES
    shown = row_text("rejected", ASKED | LOW | {"id": "\x1b[2J", "detail": "a\x1b[31mb\u202e"}, "m")
    assert "\\x1b[2J" in shown and "a\\x1b[31mb\\u202e" in shown and "\x1b" not in shown


def test_a_kept_row_of_a_run_is_shown(demo: Path) -> None:
    row = gt.open_run(demo / "runs/demo").sft[0]
    assert "trace, score 1: outcome 1, format 1, " in str(row) and row["messages"][-1]["content"][:30] in str(row)
