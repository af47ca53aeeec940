"""``python -m pipelines``: the ``beam`` command where no script is installed."""

import sys

from pipelines.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
