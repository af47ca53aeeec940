"""The code that runs inside the sandbox: the supervisor, and the processes that hold the state and run the calls.

This folder is mounted read-only in the sandbox and imported there as ``inside``, without the rest of groundtrace.
Therefore it imports only the standard library, and numpy, PIL and others for the model-written code that uses them.
"""
