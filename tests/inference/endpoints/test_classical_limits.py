"""What the embedded engine cannot read it does not answer, and what it does not serve it refuses."""

import asyncio

import numpy as np
import pytest

from groundtrace.embedded.endpoint import HANDLERS, ClassicalEndpoint
from groundtrace.grading.messages import media_part
from groundtrace.grading.responses.response import parse_response
from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.settings import EndpointSettings
from groundtrace.prompts.loader import RenderedPrompt, load_prompt, prompt_names
from groundtrace.schemas.records import MediaRef

YELLOW, GREY = (255, 255, 0), (211, 211, 211)
COUNT = "How many yellow squares are there?"


def scene(count: int = 2) -> np.ndarray:
    """A picture of one or two yellow squares."""
    pixels = np.full((100, 400, 3), GREY, np.uint8)
    for x, y in [(30, 20), (200, 50)][:count]:
        pixels[y : y + 30, x : x + 30] = YELLOW
    return pixels


def noise() -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, (100, 400, 3), dtype=np.uint8)


def attempt_prompt(*media: MediaRef, question: str = COUNT, choices: str = "") -> RenderedPrompt:
    shown = {"original": [media_part(each) for each in media]}
    return load_prompt("attempt.v1").render(shown, question=question, choices=choices, answer_format="")


@pytest.mark.parametrize("question", ["What is the man doing?", "", "yellow"])
def test_a_question_that_cannot_be_read_is_not_answered(engine, medium, question) -> None:
    prompt = attempt_prompt(medium(scene()), question=question)
    assert parse_response(engine("policy", prompt).text).answer == "cannot read"


@pytest.mark.parametrize("question", [COUNT, "Is there a yellow square?", "Are there two yellow squares?"])
def test_a_picture_that_cannot_be_read_is_not_answered(engine, medium, question) -> None:
    prompt = attempt_prompt(medium(noise()), question=question)
    assert parse_response(engine("policy", prompt).text).answer == "cannot read"


def test_a_question_about_two_pictures_is_not_answered_from_one(engine, medium) -> None:
    prompt = attempt_prompt(medium(scene(2), "a.png"), medium(scene(1), "b.png"))
    assert parse_response(engine("policy", prompt).text).answer == "cannot read"


def test_one_picture_shown_twice_is_one_picture(engine, medium) -> None:
    picture = medium(scene())
    assert parse_response(engine("policy", attempt_prompt(picture, picture)).text).answer == "2"


def any_prompt(name: str, medium: MediaRef) -> RenderedPrompt:
    prompt = load_prompt(name)
    return prompt.render({slot: [media_part(medium)] for slot in prompt.media}, **dict.fromkeys(prompt.variables, "[]"))


def serves(model: str, name: str) -> bool:
    return name.split(".")[0] in HANDLERS[model]


@pytest.mark.parametrize(
    ("model", "name"),
    [(model, name) for model in HANDLERS for name in prompt_names() if not serves(model, name)],
)
def test_unsupported_prompts_are_refused(engine, medium, model, name) -> None:
    role = "policy" if model == "colour" else "detector"
    with pytest.raises(CallError, match=rf"{model}.*{name}") as caught:
        engine(role, any_prompt(name, medium(scene())))
    assert caught.value.failure is Failure.UNSUPPORTED
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("role", "name", "variables", "failure"),
    [
        ("detector", "detect.v1", {"label": "man in the red coat"}, Failure.UNKNOWN_LABEL),
        ("detector", "detect.v1", {"label": ""}, Failure.UNKNOWN_LABEL),
        (
            "judge",
            "judge_answer.v1",
            {"question": "q", "gold": "a dog", "predicted": "an animal"},
            Failure.UNSUPPORTED,
        ),
    ],
)
def test_what_is_beyond_the_engine_is_refused(engine, medium, role, name, variables, failure) -> None:
    prompt = load_prompt(name)
    shown = {slot: [media_part(medium(scene()))] for slot in prompt.media}
    with pytest.raises(CallError) as caught:
        engine(role, prompt.render(shown, **variables))
    assert caught.value.failure is failure


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(ValueError, match="has the unknown model 'gpt': set its key 'model' to one of colour, edges"):
        ClassicalEndpoint(EndpointSettings("classical", "gpt"), None, 1)  # type: ignore[arg-type]


def test_check() -> None:
    endpoint = ClassicalEndpoint(EndpointSettings("classical", "edges", strength=0.5), None, 1)  # type: ignore[arg-type]

    async def main() -> str:
        said = await endpoint.check()
        await endpoint.close()
        return said

    assert asyncio.run(main()) == "embedded, edges, strength 0.5"
