from collections.abc import Iterator
from pathlib import Path

import pytest

from groundtrace.publishing.reading import read_summary
from groundtrace.publishing.view.rows import ViewedRows


@pytest.fixture
def run(demo: Path) -> Path:
    """A real run over the sample, which tests only read."""
    return demo / "runs/demo"


@pytest.fixture
def rows(run: Path) -> Iterator[ViewedRows]:
    """The rows of that run."""
    rows = ViewedRows(run, read_summary(run))
    yield rows
    rows.close()
