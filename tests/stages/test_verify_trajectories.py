"""Trajectories under verification: what passes, and every kind of pretence under its own name."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.grading.responses.turns import Turn, as_tags
from groundtrace.inference.settings import ModelsSettings
from groundtrace.rewards.trajectory import MODE, OPERATIONS, TURNS
from groundtrace.sandbox import SandboxSettings
from groundtrace.sandbox.shared import shared_sandbox
from groundtrace.schemas.geometry import Box
from groundtrace.schemas.records import Call, Draft, Overlay, Rejected, Trace
from groundtrace.stages.verify_trajectories import TrajectoryCheckSettings, VerifyTrajectories
from groundtrace.stages.write_trajectories import TrajectorySettings, filed
from groundtrace.vision.media import MediaRoots, MediaStore

SANDBOX = SandboxSettings(sessions=4, warm=2, call_timeout_s=5)
COUNT = """\
import numpy as np, cv2
dark = (np.asarray(input_image).min(axis=2) < 150).astype(np.uint8)
n = cv2.connectedComponents(dark)[0] - 1
print(n)"""
BOXES = tuple(Box("square", 8 + 24 * index, 30, 28 + 24 * index, 50) for index in range(3))
DRAW = """\
from PIL import ImageDraw
draw = ImageDraw.Draw(input_image)
for box in [(8, 30, 28, 50), (32, 30, 52, 50), (56, 30, 76, 50)]:
    draw.rectangle(box, outline=(255, 0, 255), width=2)
display(input_image)"""
ELSEWHERE = DRAW.replace(
    "[(8, 30, 28, 50), (32, 30, 52, 50), (56, 30, 76, 50)]", "[(90, 5, 110, 15), (120, 60, 140, 70)]"
)
SAID = "<think>The code printed 3.</think>\n<answer>3</answer>"
SHOWN = "<think>I see three squares.</think>\n<answer>3</answer>"

DARK = "import numpy as np\ndark = np.asarray(input_image).min(axis=2) < 150\n"

GOOD = {
    "a count": ([COUNT], SAID, "computation"),
    "in two calls": ([COUNT.replace("print(n)", "print(dark.sum())"), "print(n)"], SAID, "computation"),
    "the size first": (
        ["width = input_image.width\nprint(width)", COUNT.replace("print(n)", "print(n, 'in', width, 'columns')")],
        SAID,
        "computation",
    ),
    "the answer as an index": ([COUNT.replace("print(n)", "print(n * np.arange(1, 5)[3] // 4)")], SAID, "computation"),
    "a measurement with the answer as a constant": (
        [COUNT.replace("n = cv2", "dark = cv2.dilate(dark, np.ones((3, 3)))\nn = cv2")],
        SAID,
        "computation",
    ),
    "a failed call first": (["print(len(shapes))", COUNT], SAID, "computation"),
    "boxes around the objects": ([DRAW], SHOWN, "drawing"),
    "boxes that are numbered": ([f"{DRAW}\nprint(len([draw]))"], SHOWN, "drawing"),
    "a crop of the objects": (["display(input_image.crop((4, 26, 84, 54)))"], SHOWN, "transform"),
}
BAD = {
    "another number": ([COUNT], SAID.replace("<answer>3", "<answer>4"), "wrong_answer"),
    "no code": ([], SAID, "no_code"),
    "a thought that is not closed": ([COUNT], "<think>It printed 3.\n<answer>3</answer>", "malformed"),
    "comments alone": (["# I count the squares: there are 3"], SAID, "idle_code"),
    "what it was told": (["print(3)"], SAID, "idle_code"),
    "a constant by calculation": (["print(1 + 2)"], SAID, "blind_code"),
    "a constant from the image's size": (["print(len(range(input_image.width // 50)))"], SAID, "blind_code"),
    "a loop that does nothing": (["n = 0\nfor row in range(3): n += 1\nprint(n)"], SAID, "blind_code"),
    "the answer beside a measurement": ([f"{DARK}print(dark.sum(), 'pixels,', 3, 'squares')"], SAID, "idle_code"),
    "the answer in a text beside a measurement": (
        [DARK + "print(f'{dark.sum()} pixels, squares: 3')"],
        SAID,
        "idle_code",
    ),
    "the answer beside a crop": (
        ["n = [0] * 3\ndisplay(input_image.crop((4, 26, 84, 54)))\nprint(len(n))"],
        SAID,
        "idle_code",
    ),
    "the answer if the image is as it was": (
        [f"{DARK}print(3 if dark.sum() > 1000 else 0)"],
        SAID,
        "idle_code",
    ),
    "the answer first, a crop later": (
        ["n = 1 + 2\nprint(n)", "print(n)\ndisplay(input_image.crop((4, 26, 84, 54)))"],
        SAID,
        "blind_code",
    ),
    "a crop of one of the objects": (["display(input_image.crop((4, 26, 32, 54)))"], SHOWN, "blind_code"),
    "a box around one of them": (
        [DRAW.replace(", (32, 30, 52, 50), (56, 30, 76, 50)", "")],
        SHOWN,
        "blind_code",
    ),
    "a random number": (["import time; print(sum(divmod(time.time_ns(), 97)))"], SAID, "unrepeatable"),
    "a result that no turn uses": (
        [COUNT.replace("print(n)", "print(n * 100)")],
        "<think>Clearly so.</think>\n<answer>3</answer>",
        "unused_result",
    ),
    "the same call again": ([COUNT, COUNT], SAID, "repeated_call"),
    "nothing drawn": (
        ["from PIL import ImageDraw\nImageDraw.Draw(input_image)\ndisplay(input_image)"],
        SHOWN,
        "shows_nothing",
    ),
    "boxes around nothing": ([ELSEWHERE], SHOWN, "shows_nothing"),
    "no call that succeeds": (["print(none + 1)"], SAID, "shows_nothing"),
    "silent calls alone": (["n = len([1, 2, 3])"], SAID, "shows_nothing"),
    "a statement that the result contradicts": ([COUNT], SAID, "contradicts_result"),
}


def executed(codes: Sequence[str], last: str, folder: Path) -> tuple[Trace, tuple[Overlay, ...]]:
    """The trace of calls as the sandbox executes them on the scene, and the images that they showed."""
    store = MediaStore(str(folder), str(folder / "run"))
    turns, images = list[Turn](), list[Overlay]()
    with shared_sandbox(SANDBOX).open([(folder / "a.png").read_bytes()]) as session:
        for code in codes:
            seen = session.run(code)
            images += filed(seen, store)
            turns.append(Turn("<think>I look.</think>", code, seen.status, seen.text, len(seen.images)))
    answer = last.split("<answer>")[1].split("<")[0]
    return Trace(0, as_tags([*turns, Turn(last)]), answer, (), ()), tuple(images)


def draft_of(
    make_draft: Callable[..., Draft],
    name: str,
    codes: Sequence[str],
    last: str,
    folder: Path,
    boxes: Sequence[Box] = BOXES,
) -> Draft:
    made = make_draft(name, folder, ["a.png"], question=f"Q: {name}", gold_boxes=boxes)
    trace, images = executed(codes, last, folder)
    return replace(made, traces=(trace,), overlays=images, calls=(Call("teacher", "act.v1", "s", "m", ("key",)),))


def judgement(prompt: str, _: int) -> str:
    agrees = "a statement that the result contradicts" not in prompt
    return json.dumps({"reason": "so it is", "agrees": agrees})


Check = Callable[..., None]


def run(
    check_stage: Check, drafts: Sequence[Draft], asks: ModelsSettings, folder: Path, *ends: object, **how: object
) -> None:
    """Verify the drafts; ``kinds`` are the kinds of operations that questions are assigned."""
    writing = TrajectorySettings(mixture=how.pop("mixture", {}), rewritten_sources=how.pop("rewritten", ()))
    roots = MediaRoots(str(folder), str(folder / "run"))
    settings = how.pop("settings", TrajectoryCheckSettings())
    check_stage(VerifyTrajectories(settings, writing, SANDBOX, asks, roots), drafts, *ends, **how)


@pytest.fixture
def scene(tmp_path: Path, write_scene: Callable[..., Path]) -> Path:
    write_scene(tmp_path / "a.png", ["red", "blue", "black"])
    return tmp_path


@pytest.mark.sandbox
def test_trajectories_that_look_are_kept(
    scene: Path, make_draft: Callable[..., Draft], check_stage: Check, models: Callable[..., ModelsSettings]
) -> None:
    drafts = [draft_of(make_draft, name, codes, last, scene) for name, (codes, last, _) in GOOD.items()]

    def show(draft: Draft) -> tuple[object, ...]:
        turns, verdicts = draft.added(TURNS) or (), draft.traces[0].verdicts
        statuses = tuple(turn.status for turn in turns)
        return draft.id, draft.added(OPERATIONS), draft.added(MODE), draft.form, statuses, draft.best, len(verdicts)

    kept = [
        (name, [kind], "code", "code", (*(_status(code) for code in codes), ""), 0, 4)
        for name, (codes, _, kind) in GOOD.items()
    ]
    run(check_stage, drafts, models("judge", says=judgement), scene, kept, [], show=show)


def _status(code: str) -> str:
    return "error" if "print(len(shapes))" in code else "ok"


@pytest.mark.sandbox
def test_every_pretence_has_its_name(
    scene: Path, make_draft: Callable[..., Draft], check_stage: Check, models: Callable[..., ModelsSettings]
) -> None:
    drafts = [draft_of(make_draft, name, codes, last, scene) for name, (codes, last, _) in BAD.items()]
    rejected = [(name, reason, *_by(reason)) for name, (_, _, reason) in BAD.items()]

    def show(found: Rejected) -> tuple[object, ...]:
        assert found.draft is not None
        verdicts = found.draft.traces[0].verdicts
        assert verdicts[-1].reason in found.detail
        return found.id, found.reason, found.rejected_by, tuple((each.name, each.value) for each in verdicts)

    run(check_stage, drafts, models("judge", says=judgement), scene, [], rejected, show_rejected=show)


def _by(reason: str) -> tuple[object, ...]:
    """Return the scorer that rejects for this reason, and the verdicts of the trace up to that one."""
    if reason == "wrong_answer":
        return "outcome", (("outcome", 0.0),)
    names = {"no_code": "format", "malformed": "format", "contradicts_result": "agreement"}
    name = names.get(reason, "execution")
    return name, (("outcome", 1.0), (name, 0.0))


FOUND = """\
import numpy as np, cv2
from PIL import ImageDraw
dark = (np.asarray(input_image).min(axis=2) < 150).astype(np.uint8)
draw = ImageDraw.Draw(input_image)
for x, y, w, h, _ in cv2.connectedComponentsWithStats(dark)[2][1:]:
    draw.rectangle([int(x) - 2, int(y) - 2, int(x + w) + 2, int(y + h) + 2], outline=(0, 0, 0))
display(input_image)"""
UNKNOWN = {
    "marks where the code found something": (FOUND, ""),
    "marks in given places": (DRAW, "shows_nothing"),
    "a black frame": (DRAW.replace("draw.rectangle(box,", "draw.rectangle((1, 1, 158, 78),"), "shows_nothing"),
}


@pytest.mark.sandbox
def test_marks_count_without_known_objects_where_they_follow_the_image(
    scene: Path, make_draft: Callable[..., Draft], check_stage: Check, models: Callable[..., ModelsSettings]
) -> None:
    drafts = [draft_of(make_draft, name, [code], SHOWN, scene, ()) for name, (code, _) in UNKNOWN.items()]
    kept = [name for name, (_, reason) in UNKNOWN.items() if not reason]
    rejected = [(name, reason) for name, (_, reason) in UNKNOWN.items() if reason]
    asks = models("judge", says=judgement)
    run(check_stage, drafts, asks, scene, kept, rejected, show_rejected=lambda found: (found.id, found.reason))


@pytest.mark.sandbox
def test_code_is_of_the_kind_that_the_question_was_assigned(
    scene: Path, make_draft: Callable[..., Draft], check_stage: Check, models: Callable[..., ModelsSettings]
) -> None:
    drafts = [draft_of(make_draft, name, [code], SHOWN, scene) for name, code in (("a", COUNT), ("b", DRAW))]
    asks = models("judge", says=judgement)
    why = "the prompt asked for drawing, but the code has computation"
    show = {"show_rejected": lambda found: (found.id, found.reason, found.detail)}
    run(check_stage, drafts, asks, scene, ["b"], [("a", "other_operation", why)], mixture={"drawing": 1.0}, **show)


@pytest.mark.sandbox
def test_where_calculation_answers_code_need_not_look(
    scene: Path, make_draft: Callable[..., Draft], check_stage: Check, models: Callable[..., ModelsSettings]
) -> None:
    drafts = [draft_of(make_draft, "a", ["print(1 + 2)"], SAID, scene)]
    settings, asks = TrajectoryCheckSettings(computing_sources=("drawn",)), models("judge", says=judgement)
    said = {"show": lambda draft: draft.traces[0].verdicts[2].reason}
    run(check_stage, drafts, asks, scene, ["1 of 1 calls succeeded"], [], settings=settings, **said)
    run(check_stage, drafts, asks, scene, ["a"], [], rewritten=("drawn",), mixture={"drawing": 1.0})


@pytest.mark.sandbox
def test_each_of_several_judgements_has_to_agree(
    scene: Path, make_draft: Callable[..., Draft], check_stage: Check, models: Callable[..., ModelsSettings]
) -> None:
    drafts = [draft_of(make_draft, "a", [COUNT], SAID, scene)]

    def says(_: str, sample: int) -> str:
        return json.dumps({"reason": f"sample {sample}", "agrees": sample != 1})

    show = {"show_rejected": lambda found: (found.reason, found.detail)}
    expected = [("contradicts_result", "sample 1")]
    settings = TrajectoryCheckSettings(judges=3)
    run(check_stage, drafts, models("judge", says=says), scene, [], expected, settings=settings, **show)


@pytest.mark.sandbox
def test_the_first_good_one_of_several_is_kept_with_its_images(
    scene: Path, make_draft: Callable[..., Draft], check_stage: Check, models: Callable[..., ModelsSettings]
) -> None:
    crop = "display(input_image.crop((4, 26, 84, 54)))"
    several = [([crop], SHOWN.replace("<answer>3", "<answer>4")), ([DRAW], SHOWN), ([COUNT], SAID)]
    parts = [draft_of(make_draft, "a", codes, last, scene) for codes, last in several]
    traces = tuple(replace(part.traces[0], index=index) for index, part in enumerate(parts))
    overlays = tuple(image for part in parts for image in part.overlays)
    assert len(set(overlays)) == 2
    draft = replace(parts[0], traces=traces, overlays=overlays)
    show = {"show": lambda draft: (draft.best, draft.overlays, [len(each.verdicts) for each in draft.traces])}
    run(check_stage, [draft], models("judge", says=judgement), scene, [(1, overlays[1:], [1, 4, 0])], [], **show)
