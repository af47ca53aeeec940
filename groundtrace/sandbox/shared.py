"""Opens one sandbox for each process and each set of settings.

All code of a process with the same settings shares one sandbox: the steps of pipelines, the scorers (checks) of
responses, and the trainer when it samples responses.
"""

import atexit
import functools
import os

from groundtrace.sandbox.sandbox import Sandbox
from groundtrace.sandbox.settings import SandboxSettings


@functools.cache
def shared_sandbox(settings: SandboxSettings) -> Sandbox:
    """Return this process's sandbox with these settings.

    All callers with the same settings get the same sandbox. It is opened at the first call, and closed when the process
    ends. Raises :class:`groundtrace.sandbox.errors.SandboxRefused` if this machine cannot isolate code.
    """
    sandbox = Sandbox(settings)
    atexit.register(sandbox.close)
    return sandbox


os.register_at_fork(after_in_child=shared_sandbox.cache_clear)  # a sandbox ends with the threads of its process
