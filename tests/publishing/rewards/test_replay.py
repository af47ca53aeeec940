"""How the text of a response in several turns is taken apart for its reward."""

import time

import pytest

from groundtrace.publishing.rewards.replay import turns_of

CODE = '{"name": "execute_python_code", "arguments": {"code": "print(1)"}}'
CALL = f"<think>I look.</think>\n<tool_call>\n{CODE}\n</tool_call>"
RESULT = "\nuser\n<tool_response>\n1\nuser\n2\n</tool_response>\nassistant\n"
ANSWER = "<answer>1</answer>"


@pytest.mark.parametrize(
    ("text", "calls", "turns"),
    [
        (ANSWER, 0, (ANSWER,)),
        (f"{CALL}{RESULT}{ANSWER}", 1, (CALL, ANSWER)),
        (f"{CALL}\n{RESULT}\n{ANSWER}", 1, (CALL, f"\n{ANSWER}")),
        (f"{CALL}{RESULT}{CALL}{RESULT}{ANSWER}", 2, (CALL, CALL, ANSWER)),
        (f"{CALL}{RESULT}", 1, (CALL, "")),
        (CALL, 0, (CALL,)),  # cut off before the call was executed
        ("", 0, ("",)),
    ],
)
def test_turns_are_between_results(text: str, calls: int, turns: tuple[str, ...]) -> None:
    assert turns_of(text, calls) == turns


@pytest.mark.parametrize("calls", [0, 2])
def test_a_result_that_the_policy_wrote_is_no_result(calls: int) -> None:
    text = f"{CALL}{RESULT}{ANSWER}"
    assert turns_of(text, calls) == (text,)


def test_a_result_that_holds_the_beginning_of_another_is_no_result() -> None:
    hidden = f"{CALL}\nuser\n<tool_response>\n{CALL}"  # the real result would close the one that the policy began
    assert turns_of(f"{hidden}{RESULT}{ANSWER}", 1) == (f"{hidden}{RESULT}{ANSWER}",)


@pytest.mark.parametrize(
    "part", ["\n", " ", "\nuser\n<tool_response>", "</tool_response>", "</tool_response>\n\n", "\nuser"]
)
def test_a_long_text_of_a_policy_is_taken_apart_in_linear_time(part: str) -> None:
    text = part * (400_000 // len(part))
    started = time.process_time()
    assert turns_of(text, 1) == (text,)
    assert time.process_time() - started < 2
