"""Implements the ``beam`` command."""

import logging

# Before the commands are imported: Beam logs during its import, and its first message would configure logging.
logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s")
