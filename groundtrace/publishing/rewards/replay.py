"""Executes the code of responses again, for rewards that need the results of the code (CodeDance §3.1).

Another trainer, such as verl, generates a response in several turns, and passes its whole text to the reward. The text
contains the code and its results. These results are not used, because a policy (the model in training) could have
written them itself. Instead, the code is executed once more, in the same way as Groundtrace's own trainer executes it
(:mod:`groundtrace.rewards.executed_turns`). So the trajectory (the turns with the results of their code) is the same as
in Groundtrace's own trainer.

Chat templates of Qwen models put each result between two turns of the policy. When the special tokens are removed from
the text, a result is a line ``user``, then ``<tool_response>…</tool_response>``, then a line ``assistant``. A policy
may write these lines itself, so that its own text looks like a result. Two signs of this are detected:

- The number of results in the text differs from the number of calls that the trainer's tool executed
  (``groundtrace_calls``).
- A result contains the beginning of another result.

If there is such a sign, the whole text is treated as one turn, whose form is not valid.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from groundtrace.inference.runtime import runtime
from groundtrace.publishing.rewards.reference import COLUMN
from groundtrace.publishing.rewards.row_reward import Answer, RowReward
from groundtrace.rewards.executed_turns import ExecutedTurns, SandboxEnvironmentSettings
from groundtrace.rewards.rows.row import TrainingRow
from groundtrace.rewards.trajectory import Trajectory
from groundtrace.sandbox import SandboxLost

CALLS = f"{COLUMN}_calls"
_BEGIN = "\nuser\n<tool_response>"
_END = re.compile(r"</tool_response>\s*\nassistant\n")


def turns_of(text: str, calls: int) -> tuple[str, ...]:
    """Split the text of a response into the turns that the policy (the model in training) wrote.

    ``calls`` is the number of calls of code that the trainer's tool executed. A response with two calls, for example,
    has three turns. If the text has another number of turns, the whole text is returned as one turn.
    """
    turns = _split(text)
    return turns if len(turns) == calls + 1 else (text,)


def _split(text: str) -> tuple[str, ...]:
    """Return the parts of a response's text between the results of code calls.

    If a result contains the beginning of another result, the whole text is returned as one part. The beginning and the
    end of each result are searched for separately, so the text is scanned only once. A single regular expression for a
    whole result would need hours for some texts.
    """
    turns, start = [], 0
    while (begin := text.find(_BEGIN, start)) >= 0 and (end := _END.search(text, begin)) is not None:
        if text.find(_BEGIN, begin + 1, end.start()) >= 0:
            return (text,)
        turns.append(text[start:begin].rstrip())
        start = end.end()
    return (*turns, text[start:])


def with_trajectories(reward: RowReward, answers: Sequence[Answer], infos: Sequence[object]) -> list[Answer]:
    """Execute the code of responses again, and return the answers with the results of the code.

    ``answers`` are the responses, each with a reference to its row. ``infos`` holds verl's ``extra_info`` of each
    response. ``reward`` reads the rows. In the returned answers, ``trajectory`` holds the results of the code, or None
    if a sandbox failed, and ``text`` is only the last turn of the response. Raises BadReference for a run that the
    settings do not allow, ShardError for a run that cannot be read, UnusableRow for a row that is missing or unusable,
    and ConfigError if the rows lack data that the reward needs.
    """
    return runtime().submit(_all_with_trajectories(reward, answers, infos)).result()


async def _all_with_trajectories(reward: RowReward, answers: Sequence[Answer], infos: Sequence[object]) -> list[Answer]:
    settings = reward.settings.code
    at_once = asyncio.Semaphore(settings.sandbox.sessions)

    async def one(answer: Answer, info: object) -> Answer:
        calls = info.get(CALLS) if isinstance(info, Mapping) else None
        turns = turns_of(answer.text, len(calls or ()))
        row = await asyncio.to_thread(reward.row_of, answer.reference)
        async with at_once:
            return replace(answer, text=turns[-1], trajectory=await _executed(settings, row, turns))

    return list(await asyncio.gather(*(one(answer, info) for answer, info in zip(answers, infos, strict=True))))


async def _executed(settings: SandboxEnvironmentSettings, row: TrainingRow, turns: Sequence[str]) -> Trajectory | None:
    """Execute the turns of a response in order, and return the trajectory (the turns with the results of their code);
    None if the sandbox fails.

    A turn without code, or with a fault in its form, ends the response: later turns are not executed.
    """
    executed = ExecutedTurns(settings, row)
    try:
        for turn in turns:
            if await executed.step(turn) is None:
                break
        return await executed.result()
    except SandboxLost:
        return None
