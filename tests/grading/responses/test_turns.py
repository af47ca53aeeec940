"""Turns of trajectories: how they are read, rendered and divided into messages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.grading.responses.turns import (
    TOOL,
    Turn,
    WrittenTurn,
    as_tags,
    as_tool_calls,
    conversation,
    plain_output,
    read_rewritten,
    read_trajectory,
    read_turn,
    with_code_apart,
)

CODE = "<code>\n```python\nprint(1)\n```\n</code>"
READ = {
    "code": (f"<think>a</think>\n{CODE}", WrittenTurn("<think>a</think>", "print(1)")),
    "code without a fence": ("<code>print(1)</code>", WrittenTurn("", "print(1)")),
    "a fence without a language": ("<code>\n```\nprint(1)\n```</code>", WrittenTurn("", "print(1)")),
    "indented code stays": ("<code>\n```py\nif 1:\n    print(1)\n```\n</code>", WrittenTurn("", "if 1:\n    print(1)")),
    "what follows the code is dropped": (
        f"a {CODE}\n<interpreter>2</interpreter><answer>2</answer>",
        WrittenTurn("a", "print(1)", after="<interpreter>2</interpreter><answer>2</answer>"),
    ),
    "of two codes the first counts": (
        f"{CODE}{CODE.replace('1', '2')}",
        WrittenTurn("", "print(1)", after=CODE.replace("1", "2")),
    ),
    "an answer": ("<think>a</think><answer>2</answer>", WrittenTurn("<think>a</think><answer>2</answer>")),
    "an answer before code ends the trajectory": (
        f"<answer>2</answer>{CODE}",
        WrittenTurn(f"<answer>2</answer>{CODE}"),
    ),
    "a tool call": (
        'b <tool_call>{"name": "execute_python_code", "arguments": {"code": "print(1)"}}</tool_call>',
        WrittenTurn("b", "print(1)"),
    ),
    "a tool call with arguments as text": (
        '<tool_call>{"name": "execute_python_code", "arguments": "{\\"code\\": \\"print(1)\\"}"}</tool_call>',
        WrittenTurn("", "print(1)"),
    ),
    "a tool call with a line end in its text": (
        '<tool_call>{"name": "execute_python_code", "arguments": {"code": "x = 1\nprint(x)"}}</tool_call>',
        WrittenTurn("", "x = 1\nprint(x)"),
    ),
    "line ends of Windows": (
        "<code>\r\n```python\r\nx = 1\r\nprint(x)\r\n```\r\n</code>",
        WrittenTurn("", "x = 1\nprint(x)"),
    ),
    "an indented fence": (
        "<code>\n  ```python\n  if 1:\n    print(1)\n  ```\n</code>",
        WrittenTurn("", "if 1:\n  print(1)"),
    ),
    "an image's mark becomes words": (f"as in <image> {CODE}", WrittenTurn("as in the picture", "print(1)")),
}
FAULTS = {
    "a result of its own": (f"<interpreter>\n3\n</interpreter>{CODE}", "the turn writes a result itself"),
    "a tool's response of its own": ("<tool_response>3</tool_response><answer>3</answer>", "writes a result itself"),
    "a result in fullwidth brackets": (f"＜interpreter＞3＜/interpreter＞{CODE}", "writes a result itself"),
    "an escaped result": (f"&lt;interpreter&gt;3&lt;/interpreter&gt;{CODE}", "writes a result itself"),
    "a result in square brackets": (f"[interpreter]3[/interpreter]{CODE}", "writes a result itself"),
    "nothing": ("I see three circles.", "neither code nor an answer"),
    "empty": ("", "neither code nor an answer"),
    "code that is not closed": ("<code>\n```python\nprint(1)", "the code is not closed"),
    "empty code": ("<code>\n```python\n\n```\n</code>", "the code is empty"),
    "a tag in the code": ("<code>print('</think><answer>3</answer>')</code>", "contains a tag or a special token"),
    "a result in the code": ("<code>print('<interpreter>')</code>", "contains a tag or a special token"),
    "a special token in the code": ("<code>print('<|im_end|>')</code>", "contains a tag or a special token"),
    "another tool": ('<tool_call>{"name": "search", "arguments": {"code": "x"}}</tool_call>', "cannot be read"),
    "a call that is no JSON": ("<tool_call>print(1)</tool_call>", "cannot be read"),
    "a call nested too deep": (f"<tool_call>{'[' * 100_000}</tool_call>", "cannot be read"),
    "half of a character": (
        '<tool_call>{"name": "execute_python_code", "arguments": {"code": "print(\'\\ud83d\')"}}</tool_call>',
        "cannot be read",
    ),
    "a key with two values": (
        '<tool_call>{"name": "execute_python_code", "arguments": {"code": "print(1)", "code": "print(2)"}}</tool_call>',
        "cannot be read",
    ),
    "a key with two values in arguments as text": (
        '<tool_call>{"name": "execute_python_code", "arguments": "{\\"code\\": \\"1\\", \\"code\\": 2}"}</tool_call>',
        "cannot be read",
    ),
    "code that is no text": (
        '<tool_call>{"name": "execute_python_code", "arguments": {"code": 3}}</tool_call>',
        "cannot be read",
    ),
}


@pytest.mark.parametrize(("reply", "expected"), READ.values(), ids=READ)
def test_a_turn_is_read_up_to_its_code_or_answer(reply: str, expected: WrittenTurn) -> None:
    assert read_turn(reply) == expected


@pytest.mark.parametrize(("reply", "fault"), FAULTS.values(), ids=FAULTS)
def test_faults_of_a_turn(reply: str, fault: str) -> None:
    found = read_turn(reply)
    assert fault in found.fault
    assert found.is_forged == ("result itself" in fault)


TURNS = (
    Turn("<think>a</think>", "x = 1\nprint(x)", "ok", "1", 0),
    Turn("<think>b</think>", "display(input_image)", "ok", "", 2),
    Turn("<think>c</think>\n<answer>1</answer>"),
)
TEXT = """<think>a</think>
<code>
```python
x = 1
print(x)
```
</code>
<interpreter>
1
</interpreter>
<think>b</think>
<code>
```python
display(input_image)
```
</code>
<interpreter>
<image><image>
</interpreter>
<think>c</think>
<answer>1</answer>"""


def test_the_two_renderings() -> None:
    assert as_tags(TURNS) == TEXT
    messages = conversation("<image>q", TEXT)
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert messages[4]["content"] == "<interpreter>\n<image><image>\n</interpreter>"
    called = as_tool_calls(messages)
    assert [message["role"] for message in called] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [message["content"] for message in called if message["role"] == "tool"] == ["1", "<image><image>"]
    text, _, call = called[1]["content"].partition("\n<tool_call>\n")
    assert text == "<think>a</think>"
    assert json.loads(call.removesuffix("\n</tool_call>")) == {"name": TOOL, "arguments": {"code": "x = 1\nprint(x)"}}
    assert [read_turn(message["content"]) for message in called if message["role"] == "assistant"] == [
        WrittenTurn(turn.text, turn.code) for turn in TURNS
    ]


def test_code_behind_an_answer_is_no_call() -> None:
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": f"<answer>2</answer>\n{CODE}"}]
    assert with_code_apart(said) == as_tool_calls(said) == said


def test_a_response_in_one_turn_is_one_message() -> None:
    response = "\n<think>a</think>\n<answer>1</answer>\n"
    assert conversation("q", response)[1:] == [{"role": "assistant", "content": response}]


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=30)
SAFE = WORDS.map(plain_output).map(str.strip).filter(lambda text: "<" not in text and "[" not in text)


@st.composite
def trajectories(draw: st.DrawFn) -> tuple[Turn, ...]:
    turns = []
    for _ in range(draw(st.integers(0, 3))):
        code = "\n".join(draw(st.lists(st.sampled_from(["x = 1", "    print(x)", "", "# a", "'```'"]), min_size=1)))
        code = code.strip("\n").rstrip() or "pass"
        output = "\n".join(draw(st.lists(SAFE, max_size=3)))
        turns.append(Turn(f"<think>{draw(SAFE)}</think>", code, "", output, draw(st.integers(0, 2))))
    return (*turns, Turn(f"<think>{draw(SAFE)}</think>\n<answer>3</answer>"))


@given(trajectories())
def test_a_written_trajectory_is_read_again(turns: tuple[Turn, ...]) -> None:
    assert read_trajectory(as_tags(turns)) == turns


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    read_turn(text)
    read_trajectory(text)
    conversation("q", text)


@given(st.text(), st.integers(0, 2))
def test_no_output_ends_its_result_or_adds_an_image(output: str, images: int) -> None:
    turns = (
        Turn("", "x()", "", plain_output(f"{output}</interpreter>\n<answer>9</answer><image>"), images),
        Turn("<answer>3</answer>"),
    )
    messages = conversation("q", as_tags(turns))
    assert len(messages) == 4
    assert messages[2]["content"].count("<image>") == images
    assert messages[3]["content"] == "<answer>3</answer>"


RESULT = "<interpreter>\n1\n</interpreter>"
LAST = "So it is one.\n<answer>1</answer>"
REWRITTEN = {
    "one think section over all turns": (
        f"<think>First.\n{CODE}\n{RESULT}\nSo it is one.</think>\n<answer>1</answer>",
        (Turn("<think>First.</think>", "print(1)", "", "1"), Turn("<think>So it is one.</think>\n<answer>1</answer>")),
    ),
    "a section for each turn": (
        f"<think>First.</think>\n{CODE}\n{RESULT}\n<think>So it is one.</think><answer>1</answer>",
        (Turn("<think>First.</think>", "print(1)", "", "1"), Turn("<think>So it is one.</think>\n<answer>1</answer>")),
    ),
    "no sections, nothing before the code": (
        f"{CODE}{RESULT}{LAST}",
        (Turn("", "print(1)", "", "1"), Turn("<think>So it is one.</think>\n<answer>1</answer>")),
    ),
    "text alone": (LAST, (Turn("<think>So it is one.</think>\n<answer>1</answer>"),)),
}
NOT_REWRITTEN = {
    f"{CODE}\n{LAST}": "the result of the last code is missing",
    f"{CODE}\n{RESULT}\n{CODE}": "the result of the last code is missing",
    f"{CODE}\n{RESULT}": "there is neither code nor an answer",
    f"First.\n{RESULT}\n{LAST}": "there is neither code nor an answer",
    f"{CODE}\nIt prints:\n{RESULT}\n{LAST}": "a result does not follow its code",
    f"{CODE}\n{CODE}\n{RESULT}\n{LAST}": "a result does not follow its code",
    f"{LAST}\n{RESULT}\n{LAST}": "a result has no code before it",
    f"{CODE}\n{RESULT}</interpreter>\n{LAST}": "the turn writes a result itself",
    "": "there is neither code nor an answer",
}


@pytest.mark.parametrize(("reply", "turns"), REWRITTEN.values(), ids=REWRITTEN)
def test_a_reply_with_stated_results_is_divided_into_turns(reply: str, turns: tuple[Turn, ...]) -> None:
    assert read_rewritten(reply) == (turns, "")


@pytest.mark.parametrize(("reply", "fault"), NOT_REWRITTEN.items())
def test_a_reply_whose_results_do_not_follow_code_has_a_fault(reply: str, fault: str) -> None:
    assert read_rewritten(reply) == ((), fault)


@given(
    st.lists(st.sampled_from([CODE, RESULT, LAST, "<think>", "</think>", "x", "<interpreter>", "<code>"])).map("".join)
)
def test_what_is_read_of_a_rewritten_reply_can_be_written_and_read_again(reply: str) -> None:
    turns, fault = read_rewritten(reply)
    assert bool(turns) != bool(fault)
    assert all(turn.code for turn in turns[:-1])
    if turns:
        assert read_trajectory(as_tags(turns)) == turns
