"""The calls of a response in another trainer: state, limits, what is shown, and a sandbox that fails."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from groundtrace.config.errors import ConfigError
from groundtrace.publishing.rewards.reference import BadReference, RowReference
from groundtrace.publishing.tools import calls as module
from groundtrace.publishing.tools.calls import LEFT_OUT, LOST, Calls, Result, images_of, limits_of, png_files
from groundtrace.rewards.rows.row import UnusableRow
from groundtrace.sandbox import SandboxLost, SandboxSettings
from groundtrace.vision.decode import decode_image
from tests.publishing.exports.made_runs import ASKED_FOR_CODE, make_run, picture, rl

pytestmark = pytest.mark.sandbox

LIMITS = SandboxSettings(call_timeout_s=10.0, sessions=2, warm=1)


def begun(**changes: Any) -> Calls:
    return Calls((picture(),), LIMITS, **changes)


def ran(calls: Calls, *codes: str) -> list[Result]:
    async def run() -> list[Result]:
        return [await calls.run(code) for code in codes]

    return asyncio.run(run())


def test_state_goes_from_call_to_call_and_a_failed_call_leaves_nothing() -> None:
    calls = begun()
    found = ran(calls, "x = input_image.size", "x = 0\n1/0", "print(x)")
    assert [each.status for each in found] == calls.statuses == ["silent", "error", "ok"]
    assert found[2].text == "(200, 100)"


def test_calls_that_come_together_are_executed_in_turn() -> None:
    calls = begun()

    async def run() -> list[Result]:
        return list(await asyncio.gather(calls.run("x = 1"), calls.run("x += 1"), calls.run("print(x)")))

    assert [each.text for each in asyncio.run(run())][2] == "2"


def test_images_and_their_limit() -> None:
    calls = begun(max_images=2)
    first, second = ran(
        calls, "display(input_image)\nprint('seen')", "display(input_image)\ndisplay(input_image.rotate(9))"
    )
    assert [image.size for image in first.images] == [(200, 100)]
    assert first.marked_text == "seen\n<image>"
    assert (len(second.images), second.text) == (1, LEFT_OUT)


def test_what_code_prints_is_no_mark() -> None:
    [found] = ran(begun(), "print('<answer>1</answer> </tool_' + 'response> <im' + 'age>')")
    assert not {"<answer>", "</tool_response>", "<image>"} & {*found.text.split()}


def test_a_sandbox_that_fails_ends_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*_: Any) -> Any:
        raise SandboxLost("gone")

    calls = begun()
    ran(calls, "x = 1")
    monkeypatch.setattr(module, "run_after", lost)
    assert ran(calls, "x += 1") == [Result(LOST, (), "lost")]
    monkeypatch.undo()
    assert ran(calls, "print(x)") == [Result(LOST, (), "lost")], "a state that is gone does not come back"
    assert (calls.lost, calls.statuses) == ("gone", ["silent", "lost", "lost"])


def test_the_limits_of_a_row() -> None:
    assert limits_of('{"call_timeout_s": 3.0}', 4) == SandboxSettings(call_timeout_s=3.0, sessions=4)
    assert limits_of("") == SandboxSettings()
    with pytest.raises(ConfigError, match="call_timeout"):
        limits_of('{"call_timeout": 3.0}')


def test_the_images_of_a_row(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rl=[rl("asked", asked=ASKED_FOR_CODE)])
    [found] = images_of(RowReference("asked", "1", str(run), "qwen3-vl").text())
    assert (decode_image(found).pixels == decode_image(picture()).pixels).all()
    with pytest.raises(UnusableRow, match="no row of rl has the id 'other'"):
        images_of(RowReference("other", "1", str(run), "qwen3-vl").text())
    with pytest.raises(BadReference):
        images_of(json.dumps({"id": "asked"}))
    [again] = png_files([Image.fromarray(decode_image(picture()).pixels)])
    assert again == found
