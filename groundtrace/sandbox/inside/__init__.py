"""Holds the code that runs in the sandbox: the supervisor, and the processes that hold the state and run the calls.

This folder is mounted read-only in the sandbox and imported there as ``inside``, without the rest of groundtrace.
Therefore it imports only the standard library, and libraries that model-written code uses, such as numpy and PIL.
"""
