"""Holds the code that runs in the sandbox.

The processes in the sandbox are the supervisor, which enforces limits, and the processes that run the code of a
trajectory and hold its state. A trajectory is a series of executions of code that share their state. This folder is
mounted read-only in the sandbox and imported there as ``inside``, without the rest of groundtrace. So the
modules in this folder import only the standard library, and libraries that model-written code uses, such as numpy and
PIL.
"""
