"""The ``beam`` command."""

import logging

# Before the commands are imported: Beam logs while it is, and the first to log would set up how.
logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s")
