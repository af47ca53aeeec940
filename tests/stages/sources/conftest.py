"""A store, and how a source's records are read with it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.registry import read_source
from groundtrace.vision.media import MediaStore

NAMED = RowSettings(constants={"source": "made", "license": "CC0-1.0"})


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(str(tmp_path / "data"), str(tmp_path / "run"))


@pytest.fixture
def image(write_scene: Callable[..., Path], tmp_path: Path) -> bytes:
    """The bytes of a drawn scene."""
    return write_scene(tmp_path / "made" / "a.png").read_bytes()


@pytest.fixture
def read(store: MediaStore) -> Callable[..., list[tuple[int, dict[str, Any]]]]:
    """The number and the fields of each record of a source."""

    def read(source: Source, rows: RowSettings = NAMED) -> list[tuple[int, dict[str, Any]]]:
        return [(raw.number, json.loads(raw.text)) for raw in read_source(source, rows, store)]

    return read
