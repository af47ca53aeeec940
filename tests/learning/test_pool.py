"""The pool: what the pipeline's verifier says of whole and faulty traces, and the rows that each filter takes."""

from pathlib import Path

import pytest

from benchmarks.learning.pool import (
    ALL_VERIFIED,
    ARMS,
    MENDED,
    RIGHT_ONLY,
    UNFILTERED,
    VERIFIED,
    WHOLE_POOL,
    PoolEntry,
    VerifiedText,
    caught,
    load_pool,
    rows_of,
    select,
    write_rows,
)
from benchmarks.learning.scenes import write_scenes
from benchmarks.learning.training import HERE
from groundtrace.pipelines.commands.cli import main
from groundtrace.rewards.rows.shards import Shards

RIGHT = VerifiedText("right", True, True, "")
HIDDEN = VerifiedText("hidden fault", True, False, "low_grounding")
WRONG = VerifiedText("wrong answer", False, False, "wrong_answer")
ENTRIES = [
    PoolEntry(f"{n:03}", "wrong answer" if n % 2 else "object missed", n / 100, RIGHT, WRONG if n % 2 else HIDDEN)
    for n in range(100)
]


def texts(arm: str, share: float = 0.4, rows: int = 50, seed: int = 0) -> list[str]:
    return [text for _, text in select(ENTRIES, arm, share, rows, seed)]


def test_each_filter_takes_what_it_can_see() -> None:
    assert set(texts(VERIFIED)) == {"right"}
    assert set(texts(RIGHT_ONLY)) == {"right", "hidden fault"}
    assert set(texts(UNFILTERED)) == {"right", "hidden fault", "wrong answer"}
    assert set(texts(MENDED)) == {"right"}


def test_rows_are_equal_in_number_but_for_the_two_arms_of_all_rows() -> None:
    expected = dict.fromkeys(ARMS, 50) | {WHOLE_POOL: 100, ALL_VERIFIED: 60}
    assert {arm: len(texts(arm)) for arm in ARMS} == expected and set(texts(ALL_VERIFIED)) == {"right"}
    assert sum(text != "right" for text in texts(WHOLE_POOL)) == 40


def test_mended_rows_are_the_questions_of_the_unfiltered_ones() -> None:
    mended, unfiltered = (select(ENTRIES, arm, 0.4, 50, 0) for arm in (MENDED, UNFILTERED))
    assert [id for id, _ in mended] == [id for id, _ in unfiltered]


def test_the_seed_draws_other_rows_and_a_higher_share_keeps_the_faults() -> None:
    assert select(ENTRIES, VERIFIED, 0.4, 50, 0) != select(ENTRIES, VERIFIED, 0.4, 50, 1)
    faulty = [{e.id for e in ENTRIES if e.is_faulty(share)} for share in (0.2, 0.4, 0.6)]
    assert faulty[0] < faulty[1] < faulty[2]


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="'verified' has 40 rows of a pool with 60% faults; 50 are wanted"):
        select(ENTRIES, VERIFIED, 0.6, 50, 0)


@pytest.fixture(scope="module")
def curated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("curated")
    write_scenes(folder / "train", 40, seed=3, prefix="train")
    words = ("run", "grounded_cot", "--input", folder / "train", "--output", folder / "run")
    assert main([*map(str, words), "--config", str(HERE / "curate.toml")]) == 0
    return folder


@pytest.mark.slow
def test_the_verifier_keeps_whole_traces_and_no_wrong_answer(curated: Path) -> None:
    entries = load_pool(curated / "run", curated / "train", curated / "pool.jsonl")
    table = caught(entries)
    assert table["none"] == {"traces": len(entries), "kept": len(entries), "right": len(entries)}
    assert table["wrong answer"]["kept"] == table["wrong answer"]["right"] == 0
    hidden = [entry for entry in entries if entry.kind != "wrong answer"]
    assert hidden and all(entry.faulty.is_right for entry in hidden)
    assert sum(entry.faulty.is_kept for entry in hidden) < 0.2 * len(hidden)
    assert load_pool(curated / "run", curated / "train", curated / "pool.jsonl") == entries


@pytest.mark.slow
def test_rows_that_are_written_say_what_was_chosen_and_the_trainer_reads_them(curated: Path, tmp_path: Path) -> None:
    entries = load_pool(curated / "run", curated / "train", curated / "pool.jsonl")
    chosen = select(entries, UNFILTERED, 0.4, 20, 0)
    write_rows(curated / "run", chosen, tmp_path / "rows")
    rows = rows_of(tmp_path / "rows").select(["id", "messages"]).to_pylist()
    assert {row["id"]: row["messages"][-1]["content"] for row in rows} == dict(chosen)
    shards = Shards(tmp_path / "rows", "sft", tmp_path / "cache")
    assert len(shards) == 20 and shards[0].messages[-1]["content"] == dict(chosen)[shards[0].id]
