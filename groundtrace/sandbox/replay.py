"""Runs calls that share their state, although no sandbox stays open between them.

A policy takes long to write its next call. Meanwhile a rollout has more responses in progress than a machine has room
for sandboxes. So each call runs in a new trajectory of the sandbox. In this trajectory the earlier successful calls are
executed again first. Equal code does the same on equal images, and a failed call changes nothing. So the new call
begins with the state after the last successful call. Code that depends on the clock can behave differently when it is
executed again.
"""

import asyncio
from collections.abc import Sequence

from groundtrace.sandbox.errors import SandboxLost
from groundtrace.sandbox.observation import Observation
from groundtrace.sandbox.sandbox import Sandbox


async def run_after(earlier: Sequence[str], code: str, images: Sequence[bytes], sandbox: Sandbox) -> Observation:
    """Execute the code on the images, in the state after the ``earlier`` successful calls.

    Raises SandboxLost if an earlier call does not succeed again, or if the trajectory cannot continue.
    """
    session = await sandbox.open_async(images)
    try:
        for number, before in enumerate(earlier, 1):
            if not (await session.run_async(before)).is_good:
                raise SandboxLost(f"call {number} succeeded before, but failed when it was executed again")
        return await session.run_async(code)
    finally:
        await asyncio.to_thread(session.close)
