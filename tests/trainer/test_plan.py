"""The batch plan: what a file may say, and that batches hold its shares exactly over time."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.rewards.rows.shards import ShardError, Shards
from groundtrace.trainer.encode import prompt_samples
from groundtrace.trainer.model import VisionLanguageModel
from groundtrace.trainer.plan import Part, PlannedPart, next_part, parts_of, plan_text, read_plan
from groundtrace.trainer.row_sampler import LengthLimit, RowSampler

DUAL, TEXTUAL = ["grounded", "textual"], ["textual"]
PLAN = {"parts": [{"streams": DUAL, "share": 0.9, "rows": 9}, {"streams": TEXTUAL, "share": 0.1, "rows": 4}]}
READ = (PlannedPart(("grounded", "textual"), 0.9), PlannedPart(("textual",), 0.1))


def written(folder: Path, plan: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "batch_plan.json").write_text(plan if isinstance(plan, str) else json.dumps(plan), "utf-8")
    return folder


def test_a_plan_is_read_beside_its_shards_and_may_be_missing(tmp_path: Path) -> None:
    assert read_plan(written(tmp_path / "run", PLAN)) == READ
    (tmp_path / "run" / "rl").mkdir()
    assert read_plan(tmp_path / "run" / "rl") == READ
    assert read_plan(tmp_path) == ()


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("{", "Expecting property name"),
        ("[]", '"parts" must be a list'),
        ({"parts": []}, '"parts" must be a list'),
        ({"parts": [{"share": 1}]}, "parts[0].streams must be a list of names"),
        ({"parts": [{"streams": "textual", "share": 1}]}, "parts[0].streams must be a list of names"),
        ({"parts": [{"streams": ["a", "a"], "share": 1}]}, "parts[0].streams has the same stream twice"),
        ({"parts": [{"streams": ["a"], "share": True}]}, "parts[0].share must be a number above 0"),
        ({"parts": [{"streams": ["a"], "share": "0.9"}]}, "parts[0].share must be a number above 0"),
        (
            {"parts": [{"streams": ["a"], "share": 0.9}]},
            'the values of "share" in "parts" must add up to 1, but add up to 0.9',
        ),
        (
            {"parts": [{"streams": ["a", "b"], "share": 0.5}, {"streams": ["b", "a"], "share": 0.5}]},
            'two entries of "parts" have the same streams: merge them into one',
        ),
    ],
)
def test_a_plan_that_is_none_is_refused_in_one_line(tmp_path: Path, plan: Any, said: str) -> None:
    with pytest.raises(ShardError) as raised:
        read_plan(written(tmp_path, plan))
    message = str(raised.value)
    assert said in message
    assert str(tmp_path / "batch_plan.json") in message
    assert "\n" not in message


@given(st.lists(st.integers(2, 40), min_size=1, max_size=40), st.floats(0.02, 0.98))
def test_after_each_full_batch_a_part_is_within_one_row_of_its_share(counts: list[int], share: float) -> None:
    parts = (Part(range(9), share, 2, "both"), Part(range(4), 1 - share, 1, "one"))
    drawn, done = [0, 0], 0
    for count in counts:
        room, target = count, done + count
        while (at := next_part(parts, drawn, target, room)) is not None:
            drawn[at] += 1
            room -= parts[at].prompts
        assert room <= count % 2, "a batch of an even size is full"
        done = target - room
        for part, rows in zip(parts, drawn, strict=True):
            assert abs(rows - part.share * done / part.prompts) <= 1 + 1e-9


def test_ivgr_app_b_a_batch_of_512_holds_230_questions_twice(tmp_path: Path) -> None:
    parts = (Part(range(9), 0.9, 2, "both"), Part(range(4), 0.1, 1, "one"))
    drawn, room = [0, 0], 512
    while (at := next_part(parts, drawn, 512, room)) is not None:
        drawn[at] += 1
        room -= parts[at].prompts
    assert drawn == [230, 52]


@pytest.fixture
def drawer(
    tmp_path: Path, row: Callable[..., Any], write_shards: Callable[..., Path], qwen3: VisionLanguageModel
) -> Any:
    """Draws by the plan from so many rows of each part, and the rows that it leaves out."""

    def make(
        dual: int, textual: int, bad: tuple[dict[str, Any], ...] = (), seed: int = 0, only: tuple[str, ...] = ()
    ) -> tuple[RowSampler, list[str]]:
        rows = [row(id=f"d{n}", **streamed(*DUAL)) for n in range(dual)]
        rows += [row(id=f"t{n}", **streamed(*TEXTUAL)) for n in range(textual)]
        run = tmp_path / f"{dual}-{textual}-{len(bad)}"
        if not run.exists():
            write_shards(run, [*rows, *(row(**streamed(*DUAL) | each) for each in bad)], "rl")
        told: list[str] = []
        shards = Shards(run, "rl", run / "cache")
        parts, notes = parts_of(READ, shards, only)
        told += notes
        room = LengthLimit(500)
        return RowSampler(
            shards, lambda r: prompt_samples(qwen3, r, only), seed, room, lambda *w: told.append(w[1]), parts
        ), told

    return make


def streamed(*streams: str) -> dict[str, Any]:
    prompts = [{"stream": stream, "content": f"<image>In the {stream} way?"} for stream in streams]
    return {"streams": list(streams), "stream_prompts": prompts}


def drawn_of(draws: RowSampler, *counts: int) -> list[tuple[str, str]]:
    found = [each for count in counts for each in draws.take(count)]
    assert all(row.id == sample.id and row.context.stream == sample.stream for row, sample in found)
    return [(row.id, sample.stream) for row, sample in found]


def test_batches_hold_the_shares_and_streams_side_by_side(drawer: Any) -> None:
    found = drawn_of(drawer(9, 4)[0], *[16] * 20)
    assert len(found) == 320
    by_part = Counter(id[0] for id, _ in found)
    assert by_part == {"d": 288, "t": 32}
    places = [place for place, (id, stream) in enumerate(found) if id[0] == "d" and stream == "grounded"]
    assert all(found[place + 1] == (found[place][0], "textual") for place in places)


def test_each_part_cycles_its_own_epochs(drawer: Any) -> None:
    found = drawn_of(drawer(9, 4)[0], *[16] * 20)
    dual = [id for id, stream in found if stream == "grounded"]
    textual = [id for id, _ in found if id[0] == "t"]
    for ids, size in ((dual, 9), (textual, 4)):
        epochs = [ids[start : start + size] for start in range(0, len(ids) - size + 1, size)]
        assert all(len(set(epoch)) == size for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) > 1


@pytest.mark.parametrize("taken", [1, 3, 10])
def test_resumed_at_a_position_it_goes_on_alike(drawer: Any, taken: int) -> None:
    bad = ({"id": "d-bad", "images": [{"bytes": b"no image", "path": None}]},)
    whole, told = drawer(5, 2, bad)
    before = drawn_of(whole, *[7] * taken)
    resumed, _ = drawer(5, 2, bad)
    resumed.position = whole.position
    assert drawn_of(resumed, 7, 7, 4) == drawn_of(whole, 7, 7, 4)
    assert resumed.position == whole.position
    assert drawn_of(drawer(5, 2, bad)[0], *[7] * taken) == before
    assert "d-bad" not in {id for id, _ in before}
    assert taken == 1 or any("d-bad: image 1 does not decode" in reason for reason in told)


def test_a_part_without_rows_leaves_the_plan_and_is_told(drawer: Any) -> None:
    draws, told = drawer(3, 0)
    assert told == ["batch_plan.json: no row has the streams textual, so this part is left out"]
    assert Counter(stream for _, stream in drawn_of(draws, 4, 4)) == {"grounded": 4, "textual": 4}
    assert len(drawn_of(draws, 5)) == 4, "no row of one prompt fills the fifth"
    assert drawn_of(draws, 1) == []


def test_rows_of_other_streams_are_not_drawn_and_told(drawer: Any) -> None:
    draws, told = drawer(3, 2, ({"id": "x", "streams": None, "stream_prompts": None},))
    assert told == ["batch_plan.json: 1 row with other streams are not drawn"]
    assert "x" not in {id for id, _ in drawn_of(draws, *[8] * 8)}


def test_the_parts_keep_their_shares_in_one_stream(drawer: Any) -> None:
    """iVGR Table 5, variant (3): a row of the dual part has one prompt, and fills 90 % of the prompts all the same."""
    draws, told = drawer(30, 30, only=("textual",))
    drawn = drawn_of(draws, *[10] * 10)
    assert told == []
    assert {stream for _, stream in drawn} == {"textual"}
    assert len(drawn) == 100
    assert abs(sum(id.startswith("d") for id, _ in drawn) - 100 * READ[0].share) <= 1


def test_a_part_that_is_not_asked_leaves_the_plan(drawer: Any) -> None:
    """Variant (4): questions in words alone have no grounded prompt."""
    draws, _ = drawer(3, 5, only=("grounded",))
    drawn = drawn_of(draws, 4, 4)
    assert len(drawn) == 8
    assert all(id.startswith("d") and stream == "grounded" for id, stream in drawn)


def test_a_plan_that_fits_no_row_is_refused(drawer: Any) -> None:
    with pytest.raises(
        ShardError,
        match=r"batch_plan.json selects no row.* parts are: grounded\+textual, textual\. Correct the parts",
    ):
        drawer(0, 0, ({"id": "x", "streams": ["grounded"]},))


def test_a_part_of_which_no_row_can_be_used(drawer: Any) -> None:
    bad = ({"id": "d-bad", "images": [{"bytes": b"no image", "path": None}]},)
    with pytest.raises(ShardError, match=r"none of the 1 rows with the streams grounded\+textual can be used"):
        drawer(0, 2, bad)[0].take(4)


def test_a_plan_in_a_line() -> None:
    parts = (Part(range(9), 0.9, 2, "grounded+textual"), Part(range(4), 0.1, 1, "textual"))
    assert plan_text(parts) == "grounded+textual 0.9, textual 0.1"
    assert plan_text(()) == ""


def test_a_plan_that_is_nested_without_end_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "batch_plan.json").write_text("[" * 200_000, "utf-8")
    with pytest.raises(ShardError, match="is not a batch plan") as raised:
        read_plan(tmp_path)
    assert "\n" not in str(raised.value)
