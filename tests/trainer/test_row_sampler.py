"""The order of rows, what is left out of it, and going on at a position."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import groundtrace.trainer.row_sampler
from groundtrace.rewards.rows.shards import ShardError, Shards
from groundtrace.trainer.encode import sft_sample
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.row_sampler import LengthLimit, RowSampler

Row = Callable[..., dict[str, Any]]
Drawer = Callable[..., tuple[RowSampler, list[tuple[str, str]]]]
ROWS = 7
LONG = "q-long"


@pytest.fixture
def drawer(tmp_path: Path, row: Row, write_shards: Callable[..., Path], qwen3: VisionLanguageModel) -> Drawer:
    """Draws from shards of ``ROWS`` rows and others, and the list of what it leaves out."""

    def make(others: tuple[dict[str, Any], ...] = (), seed: int = 0, max_tokens: int = 500) -> tuple[RowSampler, list]:
        rows = [*(row(id=f"q{number}") for number in range(ROWS)), *others]
        if not (tmp_path / "sft").exists():
            write_shards(tmp_path, rows, per_shard=3)
        told: list[tuple[str, str]] = []
        shards = Shards(tmp_path, "sft", tmp_path / "cache")
        draws = RowSampler(
            shards,
            lambda found: [(found, sft_sample(qwen3, found))],
            seed,
            LengthLimit(max_tokens),
            lambda *why: told.append(why),
        )
        return draws, told

    return make


def _ids(draws: RowSampler, *counts: int) -> list[str]:
    found = [draws.take(count) for count in counts]
    assert all(row.id == sample.id for taken in found for row, sample in taken)
    return [row.id for taken in found for row, _ in taken]


def test_each_epoch_has_every_row_once_in_an_order_of_its_own(drawer: Drawer) -> None:
    ids = _ids(drawer()[0], *[ROWS] * 4)
    epochs = [tuple(ids[start : start + ROWS]) for start in range(0, 4 * ROWS, ROWS)]
    assert all(sorted(epoch) == [f"q{number}" for number in range(ROWS)] for epoch in epochs)
    assert len(set(epochs)) == 4


def test_the_order_is_a_function_of_the_seed(drawer: Drawer) -> None:
    first = _ids(drawer(seed=3)[0], 2 * ROWS)
    assert _ids(drawer(seed=3)[0], 2 * ROWS) == first
    assert _ids(drawer(seed=4)[0], 2 * ROWS) != first


@pytest.mark.parametrize("counts", [(1,) * 20, (5, 5, 5, 5), (3, 9, 1, 7), (20,)])
def test_how_many_are_taken_at_once_changes_nothing(drawer: Drawer, counts: tuple[int, ...]) -> None:
    draws, _ = drawer()
    assert _ids(draws, *counts) == _ids(drawer()[0], 20)
    assert draws.position == 20


@pytest.mark.parametrize("taken", [1, 4, ROWS, 2 * ROWS + 3])
def test_resumed_at_a_position_it_goes_on_alike(drawer: Drawer, row: Row, taken: int) -> None:
    bad = (row(id="q-bad", images=[{"bytes": b"no picture", "path": None}]),)
    whole, _ = drawer(bad)
    whole.take(taken)
    resumed, _ = drawer(bad)
    resumed.position = whole.position
    assert _ids(resumed, 3, 3, 3) == _ids(whole, 3, 3, 3)
    assert resumed.position == whole.position


def test_bad_rows_are_left_out_and_told_once(drawer: Drawer, row: Row) -> None:
    others = (
        row(id="q-undecodable", images=[{"bytes": b"no picture", "path": None}]),
        row(id="q-no-mark", messages=[{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]),
        row(id="q-null", messages=[{"role": "user", "content": "<image>?"}, {"role": None, "content": "!"}]),
    )
    draws, told = drawer(others)
    ids = _ids(draws, *[ROWS] * 5)
    assert set(ids) == {f"q{number}" for number in range(ROWS)}
    assert 5 * ROWS + 3 * 4 <= draws.position <= 5 * ROWS + 3 * 5, "left-out rows take up positions"
    assert sorted(name for name, _ in told) == ["row 7", "row 8", "row 9"]
    reasons = dict(told)
    assert "q-undecodable: image 1 does not decode" in reasons["row 7"]
    assert "q-no-mark: the row has 1 images, but its text has 0 <image> marks" in reasons["row 8"]
    said = "or one of its texts (id, question, answer, answer_type, or the role or content of a message) is null"
    assert said in reasons["row 9"]


def test_a_row_that_is_too_long_is_left_out_whole(drawer: Drawer, row: Row) -> None:
    turns = [{"role": "user", "content": "<image>?"}, {"role": "assistant", "content": "a b c d " * 40}]
    draws, told = drawer((row(id=LONG, messages=turns),), max_tokens=100)
    found = [sample for _ in range(3) for _, sample in draws.take(ROWS)]
    assert LONG not in {sample.id for sample in found}
    assert max(map(len, found)) <= 100
    ((name, reason),) = told
    assert name == "row 7"
    assert reason.startswith(f"{LONG}: ")
    assert reason.endswith(" tokens, batch.max_tokens is 100")


def test_a_row_of_just_the_limit_stays(drawer: Drawer) -> None:
    ((_, sample),) = drawer()[0].take(1)
    assert len(_ids(drawer(max_tokens=len(sample))[0], ROWS)) == ROWS


def test_when_no_row_can_be_used_it_stops(drawer: Drawer) -> None:
    draws, told = drawer(max_tokens=2)
    with pytest.raises(ShardError, match="none of the 7 rows can be used"):
        draws.take(1)
    assert len(told) == ROWS


def test_what_is_not_kept_is_encoded_again_alike(drawer: Drawer, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [sample for _, sample in drawer()[0].take(3 * ROWS)]
    monkeypatch.setattr(groundtrace.trainer.row_sampler, "KEPT_BYTES", 0)
    again = [sample for _, sample in drawer()[0].take(3 * ROWS)]
    assert [(a.id, a.ids.tolist()) for a in again] == [(b.id, b.ids.tolist()) for b in kept]
    assert all((a.images[0].patches == b.images[0].patches).all() for a, b in zip(again, kept, strict=True))
