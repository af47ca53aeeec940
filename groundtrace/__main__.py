"""``python -m groundtrace``: the ``beam`` command where no script is installed."""

import sys

from groundtrace.pipelines.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
