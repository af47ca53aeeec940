"""Holds the code that runs in the sandbox.

The processes in the sandbox are the supervisor, which enforces limits, and the processes that hold a trajectory's state
and run its code. This folder is mounted read-only in the sandbox and imported there as ``inside``, without the rest of
groundtrace. Therefore it imports only the standard library, and libraries that model-written code uses, such as numpy
and PIL.
"""
