"""Implements the ``beam`` command, the command line of Groundtrace. Most subcommands have a module of their own.

A run is one execution of a pipeline, with its output folder. The subcommands check, start, inspect, export and publish
runs.
"""

import logging

# Before the commands are imported: Beam logs during its import, and its first message would configure logging.
logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s")
