"""What runs inside the sandbox: the supervisor, and the processes that hold a trajectory's state and run its code.

The folder is bound read-only into the sandbox and imported there as ``inside``, without the rest of groundtrace: it
imports the standard library only, and numpy, PIL and others where the code under it has them.
"""
