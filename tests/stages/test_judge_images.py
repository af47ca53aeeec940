"""The suitability of images: each condition has its reason, and the embedded judge goes by what it sees."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.inference.caller import CallResult
from groundtrace.inference.grounding import BadReply
from groundtrace.inference.request import Completion
from groundtrace.inference.settings import ModelsSettings
from groundtrace.schemas.records import Call, Draft, FrameRef
from groundtrace.stages.judge_images import CONDITIONS, ImageSettings, JudgeImages, read_conditions

IMAGE = {"question": "", "answer": "", "answer_type": ""}
ALL = dict.fromkeys("ABCD", True)


def reply(text: str) -> CallResult:
    return CallResult((Completion(text),), Call("judge", "p", "0", "m", ("key",)))


@pytest.mark.parametrize("failed", ["", "A", "B", "C", "D", "BD", "ABCD"])
def test_the_conditions_of_a_reply(failed: str) -> None:
    said = {"reason": "so", **ALL, **dict.fromkeys(failed, False)}
    assert read_conditions(reply(f"```json\n{json.dumps(said)}\n```")) == (tuple(failed), "so")


FORMLESS = ["", "True", "[true]", '{"A": true, "B": true, "C": true}', json.dumps({**ALL, "B": "True"})]


@pytest.mark.parametrize("text", [*FORMLESS, json.dumps({**ALL, "D": None}), json.dumps({**ALL, "A": 1})])
def test_replies_of_the_wrong_form(text: str) -> None:
    with pytest.raises(BadReply):
        read_conditions(reply(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*"ABCD", "reason"]), inner, max_size=5)
    ),
)


@given(st.one_of(st.text(max_size=60), JSON.map(json.dumps)))
def test_no_other_reply_counts_as_suitable(text: str) -> None:
    try:
        failed, _ = read_conditions(reply(text))
    except BadReply:
        return
    fields = json.loads(text[text.find("{") : text.rfind("}") + 1])
    assert all(fields[letter] is (letter not in failed) for letter in CONDITIONS)


@pytest.fixture
def image(tmp_path: Path, write_scene: Callable[..., Path], make_draft: Callable[..., Draft]) -> Callable[..., Draft]:
    """A draft of an image without a question, of squares of these colours."""

    def draft(name: str, *colours: str, **fields: object) -> Draft:
        write_scene(tmp_path / f"{name}.png", colours or ("red", "blue", "black"), width=400, height=100)
        return make_draft(name, tmp_path, (f"{name}.png",), **(IMAGE | fields))

    return draft


def test_each_condition_has_its_reason(check_stage, models: Callable[..., ModelsSettings], image) -> None:
    said = {
        "good": json.dumps({"reason": "so", **ALL}),
        "few_objects": json.dumps({"reason": "so", **ALL, "A": False, "D": False}),
        "no_clear_object": json.dumps({"reason": "so", **ALL, "B": False}),
        "no_detail": json.dumps({"reason": "so", **ALL, "C": False}),
        "unfit_for_questions": json.dumps({"reason": "so", **ALL, "D": False}),
        "unparsable_reply": "True",
    }
    for count, (reason, text) in enumerate(said.items(), 1):  # another image each time: replies are cached
        stage = JudgeImages(ImageSettings(), models("judge", says=lambda prompt, sample, text=text: text))
        rejected = [] if reason == "good" else [("q", "judge_images", reason)]
        check_stage(stage, [image("q", *["red"] * count)], ["q"] if reason == "good" else [], rejected)


def test_the_numbers_of_the_config_are_asked_for(check_stage, models: Callable[..., ModelsSettings], image) -> None:
    def says(prompt: str, sample: int) -> str:
        assert "at least 3 different kinds of objects, or at least 5 single objects" in prompt
        assert "less than 12.5 % of the" in prompt
        return json.dumps({"reason": "so", **ALL})

    settings = ImageSettings(min_kinds=3, min_objects=5, max_percent=12.5)
    check_stage(JudgeImages(settings, models("judge", says=says)), [image("q")], ["q"], [])


def test_a_teacher_that_cannot_box_costs_no_call(check_stage, models: Callable[..., ModelsSettings], image) -> None:
    """The server declares neither a family nor a frame: no coordinate of it could be read."""

    def says(prompt: str, sample: int) -> str:
        raise AssertionError("nothing is asked")

    stage = JudgeImages(ImageSettings(), models("teacher", "judge", says=says))
    check_stage(stage, [image("q")], [], [("q", "judge_images", "cannot_box", 0)], show_rejected=shown)


def shown(found) -> tuple[str, str, str, int]:
    return found.id, found.stage, found.reason, len(found.calls)


def test_clips_are_not_judged(check_stage, models: Callable[..., ModelsSettings], image) -> None:
    draft = image("q")
    [medium] = draft.question.media
    clip = replace(medium, kind="video", frames=(FrameRef(1, 0.0, medium.uri, medium.sha256, 9),))
    draft = replace(draft, question=replace(draft.question, media=(clip,)))
    check_stage(JudgeImages(ImageSettings(), models()), [draft], [], [("q", "judge_images", "is_clip")])


def test_the_embedded_judge_goes_by_the_shapes(check_stage, models: Callable[..., ModelsSettings], image) -> None:
    drafts = [
        image("six", "red", "blue", "black", "red", "blue", "black"),
        image("four_kinds", "red", "blue", "black", "yellow"),
        image("few", "red", "blue"),
        image("copies", *["red"] * 6),
    ]
    rejected = [("few", "judge_images", "few_objects"), ("copies", "judge_images", "no_clear_object")]
    check_stage(JudgeImages(ImageSettings(), models()), drafts, ["six", "four_kinds"], rejected)
