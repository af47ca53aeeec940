"""Rows that are held out: whole media groups, about as many as wanted, and the same ones each time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.config.errors import ConfigError
from groundtrace.rewards.rows.shards import Shards
from groundtrace.storage.places import RemotePath
from groundtrace.trainer.validation.held_out import hold_out

from ..runs import records, settings_of, write_records

PLACES = [(0,), (1,), (1, 2), (2,), (3,), (), (), (4,), (4,), (5,)]
"""The images of each row: rows 1 to 3 are one media group, and so are 7 and 8; rows without images are alone."""


@pytest.fixture
def shards(tmp_path: Path, row: Any, png: Any, write_shards: Callable[..., Path]) -> Shards:
    rows = [
        row(id=f"r{number}", images=[{"bytes": png(64, 64, place), "path": None} for place in places])
        for number, places in enumerate(PLACES)
    ]
    return Shards(write_shards(tmp_path, rows, per_shard=4), "sft", tmp_path / "rows")


def ids_of(shards: Any) -> list[str]:
    return [shards[index].id for index in range(len(shards))]


def settings(seed: int = 0, **validation: Any) -> Any:
    return settings_of(Path("tiny"), seed=seed, validation=validation)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_no_group_is_on_both_sides(share: float, seed: int, shards: Shards, tmp_path: Path) -> None:
    kept, held = hold_out(shards, settings(seed, share=share), tmp_path)
    assert held is not None
    trained, asked = ids_of(kept), ids_of(held.rows)
    assert sorted(trained + asked) == sorted(ids_of(shards)) and not set(trained) & set(asked)
    assert 1 <= len(asked) <= share * len(PLACES) + 1e-9
    for group in ({"r1", "r2", "r3"}, {"r7", "r8"}):
        assert group <= set(trained) or group <= set(asked)
    assert sorted(held.order) == list(range(len(asked)))
    again, same = hold_out(shards, settings(seed, share=share), tmp_path)
    assert same is not None and (ids_of(again), same.text, same.order) == (trained, held.text, held.order)


def test_other_seeds_hold_out_other_rows(shards: Shards, tmp_path: Path) -> None:
    found = [hold_out(shards, settings(seed, share=0.3), tmp_path)[1] for seed in range(6)]
    assert len({held.text for held in found if held is not None}) > 1


def test_rows_that_share_an_image_with_the_questions_are_not_trained_on(
    shards: Shards, tmp_path: Path, row: Any, png: Any, write_shards: Callable[..., Path]
) -> None:
    """Row 3 shares no image with the question, but an image with row 2, which shares one."""
    asked = [row(id="other", images=[{"bytes": png(64, 64, 1), "path": None}])]
    data = write_shards(tmp_path / "asked", asked)
    kept, held = hold_out(shards, settings(data=str(data)), tmp_path)
    assert held is not None and (ids_of(held.rows), held.left_out) == (["other"], 3)
    assert ids_of(kept) == ["r0", "r4", "r5", "r6", "r7", "r8", "r9"]


def test_the_questions_may_be_in_a_store(
    shards: Shards, tmp_path: Path, row: Any, write_shards: Callable[..., Path], bucket: RemotePath, monkeypatch: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = write_shards(tmp_path / "asked", [row(id="other")])
    for file in filter(Path.is_file, data.rglob("*")):
        (bucket / "asked" / file.relative_to(data).as_posix()).write_bytes(file.read_bytes())
    _, held = hold_out(shards, settings(data=str(bucket / "asked")), tmp_path)
    assert held is not None and ids_of(held.rows) == ["other"]


def test_all_rows_are_trained_on_without_a_validation(shards: Shards, tmp_path: Path) -> None:
    assert hold_out(shards, settings(), tmp_path) == (shards, None)


def test_rows_of_one_image(tmp_path: Path, row: Any, write_shards: Callable[..., Path]) -> None:
    shards = Shards(write_shards(tmp_path, [row(id=f"r{n}") for n in range(4)]), "sft", tmp_path / "rows")
    with pytest.raises(
        ConfigError,
        match=r"hold out 2 rows of 4, but all rows with the same image are held out together, and each image has 4",
    ):
        hold_out(shards, settings(share=0.5), tmp_path)


def test_a_subset_of_shards(shards: Shards) -> None:
    some = shards.subset([7, 0, 1, 2])
    assert ids_of(some) == ["r0", "r1", "r2", "r7"] and len(some) == 4
    assert some.sha256 != shards.sha256 and shards.subset(range(10)).sha256 == shards.sha256
    assert some.named("r7").id == "r7" and some.images_sha256() == [shards.images_sha256()[at] for at in (0, 1, 2, 7)]
    assert [len(found) for found in shards.images_sha256()] == [len(places) for places in PLACES]


def test_other_gold_answers_are_other_questions(shards: Shards, tmp_path: Path) -> None:
    """The held-out records belong to the run: not only their images, but what they ask and their answers."""

    def text(name: str, **changes: Any) -> str:
        asked = records("662-1-0-c0", "662-1-0-c1")
        data = write_records(tmp_path / name, [asked[0], asked[1] | changes])
        held = hold_out(shards, settings(data=str(data)), tmp_path)[1]
        assert held is not None
        return held.text

    same = text("a")
    assert text("b") == same
    assert same not in {
        text("c", answer="77"),
        text("d", question="How many?"),
        text("e", id="other"),
        text("f", boxes=None),
    }
