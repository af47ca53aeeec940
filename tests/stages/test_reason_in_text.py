"""Solutions in text: which one of several is kept, and every reason to reject."""

from collections.abc import Callable

from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.trajectory import MODE
from groundtrace.schemas.records import Draft
from groundtrace.stages.reason_in_text import ReasonInText, ReasonSettings

from .conftest import CUT

RIGHT = "<think>There are three.</think>\n<answer>3</answer>"
WRONG = RIGHT.replace("3", "4")
SOLUTIONS = {
    "right": ([RIGHT, WRONG], 0),
    "right at last": ([WRONG, RIGHT], 1),
    "cut, then right": ([f"<think>There{CUT}", RIGHT], 1),
    "wrong": ([WRONG, WRONG], "wrong_answer"),
    "no answer": (["There are three.", WRONG], "malformed"),
    "two answers": ([f"{RIGHT}<answer>3</answer>", WRONG], "malformed"),
    "an open section": (["<think>There are three.\n<answer>3</answer>", WRONG], "malformed"),
    "code": ([f"<code>print(3)</code>{RIGHT}", WRONG], "malformed"),
    "cut": ([f"<think>There{CUT}", WRONG], "truncated"),
}


def says(prompt: str, sample: int) -> str:
    return SOLUTIONS[prompt.split("Q: ")[1].split("\n")[0]][0][sample]


def test_the_first_right_solution_is_kept_and_each_fault_has_its_reason(
    make_draft: Callable[..., Draft], check_stage: Callable[..., None], models: Callable[..., ModelsSettings]
) -> None:
    drafts = [make_draft(name, question=f"Q: {name}") for name in SOLUTIONS]
    kept = [(name, index, "text", "code", 0, 1.0) for name, (_, index) in SOLUTIONS.items() if isinstance(index, int)]
    rejected = [(name, "reason", reason) for name, (_, reason) in SOLUTIONS.items() if isinstance(reason, str)]

    def show(draft: Draft) -> tuple[object, ...]:
        [trace] = draft.traces
        return draft.id, trace.index, draft.added(MODE), draft.form, draft.best, trace.score

    check_stage(ReasonInText(ReasonSettings(n=2), models("teacher", says=says)), drafts, kept, rejected, show)


def test_a_free_answer_without_a_judge_cannot_be_graded(
    make_draft: Callable[..., Draft], check_stage: Callable[..., None], models: Callable[..., ModelsSettings]
) -> None:
    draft = make_draft("a", question="Q: right", answer="the tall one", answer_type="text")
    stage = ReasonInText(ReasonSettings(n=2), models("teacher", says=says))
    check_stage(stage, [draft], [], [("a", "reason", "ungradable")])
