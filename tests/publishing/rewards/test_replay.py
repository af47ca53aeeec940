"""How the text of a response in several turns is taken apart for its reward."""

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
