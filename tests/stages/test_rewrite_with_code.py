"""Rewritten solutions: stated outputs must be the real ones, and the words must be the old ones."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.grading.responses.traces import read_trace
from groundtrace.grading.responses.turns import Turn, read_trajectory
from groundtrace.inference.settings import ModelsSettings
from groundtrace.sandbox.settings import SandboxSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.rewrite_with_code import RewriteSettings, RewriteWithCode, is_same_output, share_kept
from groundtrace.vision.media import MediaRoots

from .conftest import CUT

SANDBOX = SandboxSettings(sessions=2, warm=0, call_timeout_s=5)
OLD = "<think>The sides are 3 and 4. 3 * 3 + 4 * 4 = 25, whose root is 5.</think>\n<answer>5</answer>"


def rewriting(*scripts: tuple[str, str], before: str = "The sides are 3 and 4.", last: str = "The root is 5.") -> str:
    parts = [f"<code>\n```python\n{code}\n```\n</code>\n<interpreter>\n{out}\n</interpreter>" for code, out in scripts]
    return "\n".join([before, *parts, last, "<answer>5</answer>"])


ROOT = "import math\nprint(math.hypot(3, 4))"
GOOD = {
    "the number in another form": (rewriting((ROOT, "5")), ["5.0"]),
    "blanks around it": (rewriting((ROOT, "  5.0  ")), ["5.0"]),
    "the state of the script before": (rewriting(("x = 3 * 3\nprint(x)", "9"), ("print(x + 16)", "25")), ["9", "25"]),
    "several lines": (rewriting(("print(3, 4)\nprint(5)", "3 4\n5")), ["3 4\n5"]),
}
BAD = {
    "another number": (rewriting((ROOT, "6")), "other_result"),
    "a rounded number": (rewriting(("print(2 / 3)", "0.67")), "other_result"),
    "a word more": (rewriting((ROOT, "the root is 5.0")), "other_result"),
    "a script that fails": (rewriting(("print(sides)", "5.0")), "other_result"),
    "a script that prints nothing": (rewriting(("x = 5", "5")), "other_result"),
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
