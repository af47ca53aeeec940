"""Names with ``hf://``, and rows of sets that a run has made."""

from pathlib import Path

import pytest

from groundtrace.stages.sources.base import InputError
from groundtrace.stages.sources.hub_sets import HubSet, as_asked, hub_set


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hf://org/set", HubSet("org/set")),
        ("hf://datasets/org/set", HubSet("org/set")),
        ("hf://org/set/rl", HubSet("org/set", "rl")),
        ("hf://org/set@v1", HubSet("org/set", "", "v1")),
        ("hf://org/set/rl@run-00ff", HubSet("org/set", "rl", "run-00ff")),
        ("hf://org/set/rl@refs/pr/1", HubSet("org/set", "rl", "refs/pr/1")),
    ],
)
def test_names(name: str, found: HubSet) -> None:
    assert hub_set(name) == found


@pytest.mark.parametrize(
    "name",
    [
        "hf://",
        "hf://org",
        "hf://org/set/a/b",
        "hf://org/set@",
        "hf://o r/set",
        "hf://../set",
        "hf://./set",
        "hf://a/..",
        "hf://org/sét",
    ],
)
def test_no_name(name: str) -> None:
    with pytest.raises(InputError, match="write hf://ORG/NAME"):
        hub_set(name)


def test_a_folder_of_that_name_is_not_taken_for_the_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org/set").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="the package `datasets` would read the local folder org/set"):
        hub_set("hf://org/set")


BOX = {"label": "dog", "x1": 1.0, "y1": 2.0, "x2": 3.0, "y2": 4.0, "media_index": 1}
OWN = {"lineage": {}, "gold_boxes": [BOX], "boxes_source": "gold", "boxes": [{"label": "of the trace"}], "id": "q1"}


@pytest.mark.parametrize(
    ("changes", "boxes"),
    [
        ({}, [{"label": "dog", "bbox": [1.0, 2.0, 3.0, 4.0], "media_index": 1}]),
        ({"boxes_source": "detector"}, None),
        ({"gold_boxes": None, "boxes_source": None}, None),
        ({"gold_boxes": []}, []),
    ],
)
def test_boxes_of_our_own_rows(changes: dict[str, object], boxes: object) -> None:
    assert as_asked(OWN | changes)["boxes"] == boxes
    assert as_asked(OWN | changes)["id"] == "q1"


def test_other_rows_stay() -> None:
    row = {"question": "?", "boxes": [{"label": "a", "bbox": [0, 0, 1, 1]}]}
    assert as_asked(row) is row
