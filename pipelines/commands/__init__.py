"""Implements the ``beam`` command, the command line of Groundtrace, with one module for most subcommands.

The subcommands check, run, inspect, export and publish the runs of a pipeline.
"""

import logging

# Before the commands are imported: Beam logs during its import, and its first message would configure logging.
logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s")
