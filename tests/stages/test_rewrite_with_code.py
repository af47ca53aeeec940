"""Rewritten solutions: stated outputs must be the real ones, and the words must be the old ones."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.traces import read_trace
from groundtrace.grading.responses.turns import Turn, read_trajectory
from groundtrace.inference.settings import ModelsSettings
from groundtrace.sandbox.settings import SandboxSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.rewrite_with_code import (
    RewriteSettings,
    RewriteWithCode,
    is_same_output,
    share_kept,
    share_left,
)
from groundtrace.vision.media import MediaRoots

from .conftest import CUT

WORDS = st.lists(st.sampled_from("abc"), max_size=8)
SANDBOX = SandboxSettings(sessions=2, warm=0, call_timeout_s=5)
OLD = "<think>The sides are 3 and 4. 3 * 3 + 4 * 4 = 25, whose root is 5.</think>\n<answer>5</answer>"


def rewriting(*scripts: tuple[str, str], before: str = "The sides are 3 and 4.", last: str = "The root is 5.") -> str:
    parts = [f"<code>\n```python\n{code}\n```\n</code>\n<interpreter>\n{out}\n</interpreter>" for code, out in scripts]
    return "\n".join([before, *parts, last, "<answer>5</answer>"])


ROOT = "import math\nprint(math.hypot(3, 4))"
WARNED = "5\n<call 1>:2: UserWarning: old\n  warnings.warn('old')"
GOOD = {
    "the number in another form": (rewriting((ROOT, "5")), ["5.0"]),
    "blanks around it": (rewriting((ROOT, "  5.0  ")), ["5.0"]),
    "the state of the script before": (rewriting(("x = 3 * 3\nprint(x)", "9"), ("print(x + 16)", "25")), ["9", "25"]),
    "several lines": (rewriting(("print(3, 4)\nprint(5)", "3 4\n5")), ["3 4\n5"]),
    "a warning beside it": (rewriting(("import warnings\nwarnings.warn('old')\nprint(5)", "5")), [WARNED]),
    "a result of a tool": (rewriting((ROOT, "5.0")).replace("interpreter>", "tool_response>"), ["5.0"]),
}
SILENT = "[the code printed nothing and showed no image]"
FAILED = """Traceback (most recent call last):
  File "<call 1>", line 1, in <module>
ZeroDivisionError: division by zero"""
BAD = {
    "another number": (rewriting((ROOT, "6")), "other_result"),
    "a rounded number": (rewriting(("print(2 / 3)", "0.67")), "other_result"),
    "a word more": (rewriting((ROOT, "the root is 5.0")), "other_result"),
    "a script that fails": (rewriting(("print(sides)", "5.0")), "other_result"),
    "a script that prints nothing": (rewriting(("x = 5", "5")), "other_result"),
    "the traceback of a script that fails": (rewriting(("1 / 0", FAILED)), "other_result"),
    "a number before the script fails": (rewriting(("print(5)\n1 / 0", "5")), "other_result"),
    "the note of a script that prints nothing": (rewriting(("x = 5", SILENT)), "other_result"),
    "another large number": (rewriting(("print(17**20)", "4064231406647572522401602")), "other_result"),
    "digits of another script": (rewriting((ROOT, "５.0")), "other_result"),
    "a result in a fence": (rewriting((ROOT, "5.0")).replace("The root is 5.", "```output\n5\n```"), "malformed"),
    "text after the answer": (rewriting((ROOT, "5.0")) + "\nOn second thought, it is 6.", "malformed"),
    "words in another order": (rewriting((ROOT, "5.0"), before="4 and 3 are sides The."), "other_reasoning"),
    "only its end": (rewriting((ROOT, "5.0"), before="", last="is 5."), "other_reasoning"),
    "the second script": (rewriting((ROOT, "5.0"), ("print(1)", "2")), "other_result"),
    "no code": (OLD, "no_code"),
    "a result without code": ("The sides.\n<interpreter>5</interpreter>\n<answer>5</answer>", "malformed"),
    "no answer": (rewriting((ROOT, "5.0")).replace("<answer>5</answer>", ""), "malformed"),
    "a new solution": (rewriting((ROOT, "5.0"), before="By Pythagoras we square both legs first."), "other_reasoning"),
    "cut off": (f"The sides{CUT}", "truncated"),
}


def run(
    folder: Path,
    cases: Mapping[str, tuple[str, object]],
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
) -> tuple[RewriteWithCode, list[Draft]]:
    write_scene(folder / "a.png")
    drafts = [
        replace(make_draft(name, folder, ["a.png"], question=f"Q: {name}", answer="5"), traces=(read_trace(0, OLD),))
        for name in cases
    ]
    asks = models("teacher", says=lambda prompt, _: cases[prompt.split("Q: ")[1].split("\n")[0]][0])
    settings = RewriteSettings(min_kept=0.6)
    return RewriteWithCode(settings, SANDBOX, asks, MediaRoots(str(folder), str(folder / "run"))), drafts


@pytest.mark.sandbox
def test_scripts_are_executed_and_their_real_outputs_are_kept(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
) -> None:
    stage, drafts = run(tmp_path, GOOD, make_draft, write_scene, models)

    def show(draft: Draft) -> tuple[str, list[str], str | None]:
        turns = read_trajectory(draft.traces[0].text)
        return draft.id, [turn.output for turn in turns if turn.code], draft.traces[0].answer

    check_stage(stage, drafts, [(name, outputs, "5") for name, (_, outputs) in GOOD.items()], [], show)


@pytest.mark.sandbox
def test_each_fault_of_a_rewriting_has_its_reason(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    models: Callable[..., ModelsSettings],
    check_stage: Callable[..., None],
) -> None:
    stage, drafts = run(tmp_path, BAD, make_draft, write_scene, models)
    check_stage(stage, drafts, [], [(name, "rewrite", reason) for name, (_, reason) in BAD.items()])


@pytest.mark.parametrize(
    ("stated", "printed", "same"),
    [
        ("5", "5.0", True),
        ("[1, 2]", "[1, 2]", True),
        ("yes\n2", "yes 2", True),
        ("1e3", "1000", True),
        ("5", "5 cm", False),
        ("5.0", "5.01", False),
        ("yes", "Yes", False),
        ("nan", "nan", True),
        ("9007199254740993", "9007199254740992", False),
        ("1e400", "inf", False),
        ("3_91", "391", False),
        ("٣٩١", "391", False),
        ("0391", "391.", True),
        ("1e999999", "1", False),
        ("", "5", False),
        ("", "", True),
    ],
)
def test_outputs_are_the_same_up_to_blanks_and_the_form_of_numbers(stated: str, printed: str, same: bool) -> None:
    assert is_same_output(stated, printed) is same
    assert is_same_output(printed, stated) is same


def test_the_share_of_old_words() -> None:
    turns = (Turn("<think>The root of the sides</think>", "print(1)", "", "1"), Turn("<answer>5</answer>"))
    assert share_kept("The sides: 5", turns) == pytest.approx(3 / 6)  # of, the, root are new
    assert share_kept("", ()) == 1.0


def test_the_share_of_words_that_are_left() -> None:
    turns = (Turn("<think>The root of 4</think>", "print(1)", "", "1"), Turn("so it is 2"))
    assert share_left("The root of 4, which is 2", turns) == 4 / 5  # without numbers; only "which" is missing
    assert share_left("4 2", turns) == 1.0


@given(WORDS, WORDS)
def test_words_are_common_as_in_the_longest_common_subsequence(old: list[str], new: list[str]) -> None:
    lengths = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, j in itertools.product(range(len(old)), range(len(new))):
        longer = max(lengths[i][j + 1], lengths[i + 1][j])
        lengths[i + 1][j + 1] = lengths[i][j] + 1 if old[i] == new[j] else longer
    found = share_kept(" ".join(old), (Turn(" ".join(new)),))
    assert found == (lengths[-1][-1] / len(new) if new else 1.0)
