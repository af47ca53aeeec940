"""Trajectories as they are written: what is executed, what the teacher gets back, and every fault."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.grading.responses.operations import COMPUTATION, DRAWING, OPERATIONS
from groundtrace.grading.responses.turns import read_trajectory
from groundtrace.inference.settings import ModelsSettings
from groundtrace.sandbox.settings import SandboxSettings
from groundtrace.schemas.records import Draft
from groundtrace.stages.write_trajectories import TrajectorySettings, WriteTrajectories, operation_for
from groundtrace.vision.media import MediaRoots

from .conftest import CUT

SANDBOX = SandboxSettings(sessions=2, warm=0, call_timeout_s=5)


def code(text: str) -> str:
    return f"<think>I look.</think>\n<code>\n```python\n{text}\n```\n</code>"


ANSWER = "<think>It is so.</think>\n<answer>3</answer>"
WRITES = {
    "code, then the answer": [code("print(input_image.size)"), ANSWER],
    "a failed call, then a better one": [code("print(none)"), code("x = 3\nprint(x)"), ANSWER],
    "the state of an earlier call": [code("x = 3"), code("print(x + 1)"), ANSWER],
    "images": [code("display(input_image)\ndisplay(input_image.rotate(90, expand=True))"), ANSWER],
    "an answer at once": [ANSWER],
}
OUTPUTS = {
    "code, then the answer": ["(160, 80)"],
    "a failed call, then a better one": ["NameError: name 'none' is not defined", "3"],
    "the state of an earlier call": ["[the code printed nothing and showed no image]", "4"],
    "images": [""],
    "an answer at once": [],
}
FAULTS = {
    "words alone": (["I see three."], "malformed", "neither code nor an answer"),
    "a result of its own": ([code("print(1)").replace("I look.", "<interpreter>3</interpreter>")], "forged_result", ""),
    "no answer in three turns": ([code("print(1)")] * 4, "no_answer", "no answer in 3 turns"),
    "cut off": ([f"<think>I look{CUT}"], "truncated", "cut off"),
    "cut off later": ([code("print(1)"), f"<think>I{CUT}"], "truncated", "cut off"),
}


def replies(script: dict[str, list[str]]) -> Callable[[str, int], str]:
    """The teacher: the next line of the script that the question names, by the results that the prompt holds."""

    def say(prompt: str, _: int) -> str:
        name = prompt.split("Q: ")[1].split("\n")[0]
        return script[name][prompt.count("<interpreter>\n")]

    return say


@pytest.mark.sandbox
def test_each_turn_is_executed_and_its_result_comes_back(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    check_stage: Callable[..., None],
    models: Callable[..., ModelsSettings],
) -> None:
    write_scene(tmp_path / "a.png")
    drafts = [make_draft(name, tmp_path, ["a.png"], question=f"Q: {name}") for name in WRITES]
    stage = WriteTrajectories(
        TrajectorySettings(max_turns=3), SANDBOX, models("teacher", says=replies(WRITES)), roots(tmp_path)
    )

    def show(draft: Draft) -> tuple[str, list[str], int, bool]:
        turns = read_trajectory(draft.traces[0].text)
        outputs = [turn.output.split("\n")[-1] for turn in turns if turn.code]
        drawn = all((tmp_path / overlay.uri.replace("run:", "run/")).is_file() for overlay in draft.overlays)
        return draft.id, outputs, len(draft.overlays), drawn and draft.traces[0].answer == "3"

    kept = [(name, OUTPUTS[name], 2 if name == "images" else 0, True) for name in WRITES]
    check_stage(stage, drafts, kept, [], show)


def roots(folder: Path) -> MediaRoots:
    return MediaRoots(str(folder), str(folder / "run"))


@pytest.mark.sandbox
def test_every_fault_has_its_reason(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    check_stage: Callable[..., None],
    models: Callable[..., ModelsSettings],
) -> None:
    write_scene(tmp_path / "a.png")
    drafts = [make_draft(name, tmp_path, ["a.png"], question=f"Q: {name}") for name in FAULTS]
    script = {name: fault[0] for name, fault in FAULTS.items()}
    stage = WriteTrajectories(
        TrajectorySettings(max_turns=3), SANDBOX, models("teacher", says=replies(script)), roots(tmp_path)
    )
    rejected = [(name, reason, True) for name, (_, reason, _) in FAULTS.items()]
    check_stage(
        stage,
        drafts,
        [],
        rejected,
        show_rejected=lambda found: (found.id, found.reason, FAULTS[found.id][2] in found.detail),
    )


@pytest.mark.sandbox
def test_of_several_trajectories_the_good_ones_stay(
    tmp_path: Path,
    make_draft: Callable[..., Draft],
    write_scene: Callable[..., Path],
    check_stage: Callable[..., None],
    models: Callable[..., ModelsSettings],
) -> None:
    """Each sample of the first turn becomes a trajectory; the images are those of the good ones, in their order."""
    write_scene(tmp_path / "a.png")
    first = [code("display(input_image)"), "nothing", code("display(input_image.crop((0, 0, 60, 60)))")]

    def say(prompt: str, sample: int) -> str:
        return ANSWER if "<interpreter>" in prompt else first[sample]

    stage = WriteTrajectories(TrajectorySettings(n=3), SANDBOX, models("teacher", says=say), roots(tmp_path))
    check_stage(
        stage,
        [make_draft("a", tmp_path, ["a.png"])],
        [((0, 1), 2)],
        [],
        show=lambda draft: (tuple(trace.index for trace in draft.traces), len({each.uri for each in draft.overlays})),
    )


def test_questions_are_divided_over_the_kinds_by_their_ids(make_draft: Callable[..., Draft]) -> None:
    questions = [make_draft(f"q{number}").question for number in range(3000)]
    equal = Counter(operation_for(each, TrajectorySettings()) for each in questions)
    assert set(equal) == set(OPERATIONS)
    assert min(equal.values()) > 900
    one_of_four = TrajectorySettings(mixture={COMPUTATION: 1.0, DRAWING: 3.0})
    found = Counter(operation_for(each, one_of_four) for each in questions[:2000])
    assert set(found) == {COMPUTATION, DRAWING}
    assert 440 < found[COMPUTATION] < 560
    assert operation_for(questions[1], TrajectorySettings(mixture={})) == ""
    rewritten = TrajectorySettings(mixture={DRAWING: 1.0}, rewritten_sources=("drawn",))
    assert operation_for(questions[1], rewritten) == COMPUTATION
    with pytest.raises(ValueError, match="mixture has the unknown kind 'magic'"):
        TrajectorySettings(mixture={"magic": 1.0})
