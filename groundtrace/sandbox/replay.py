"""Runs code that continues from earlier code of the same response, although no sandbox stays open in between.

A policy (the model in training) needs much time to write its next call (code to execute), and during sampling, many
responses are in progress at the same time. A machine cannot keep a sandbox session open for each of these responses. So
each call runs in a new session, in which the earlier successful calls are executed again first. The same code has the
same effect on the same images, and a failed call has no effect. So the new call begins with the state after the last
successful call. There is one exception: code that depends on the clock can behave differently when it is executed
again.
"""

import asyncio
from collections.abc import Sequence

from groundtrace.sandbox.errors import SandboxLost
from groundtrace.sandbox.observation import Observation
from groundtrace.sandbox.sandbox import Sandbox


async def run_after(earlier: Sequence[str], code: str, images: Sequence[bytes], sandbox: Sandbox) -> Observation:
    """Execute code in a new sandbox session, so that it continues from the earlier code of the same response.

    The session executes the earlier code again before the new code.

    Args:
        earlier: the code of each earlier successful call, in order.
        code: the new code.
        images: the bytes of the image files that the code gets.
        sandbox: the sandbox that runs the code.

    Returns:
        The result of the new code: what it printed and showed, and how it ended.

    Raises:
        SandboxLost: if the code of an earlier call fails now, or if the session cannot continue.
    """
    session = await sandbox.open_async(images)
    try:
        for number, before in enumerate(earlier, 1):
            if not (await session.run_async(before)).is_good:
                raise SandboxLost(f"call {number} succeeded before, but failed when it was executed again")
        return await session.run_async(code)
    finally:
        await asyncio.to_thread(session.close)
