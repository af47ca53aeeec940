"""Rows that would be left out, and are not where a setting can help: large photos, free text without a judge."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .runs import Command, judging, lines_of

pytestmark = pytest.mark.slow

WriteShards = Callable[..., Path]


@pytest.fixture
def good(row: Callable[..., Any]) -> list[dict[str, Any]]:
    return [row(id=f"s{number}") for number in range(3)]


def test_a_large_photo_is_shrunk_where_it_would_be_left_out(
    run: Command, row: Any, png: Callable[..., bytes], write_shards: WriteShards
) -> None:
    """In training and in rollouts alike."""
    photo = {"images": [{"bytes": png(500, 500), "path": None}]}
    for command, side in (("sft", "sft"), ("grpo", "rl")):
        data = write_shards(run.home / side, [row(**photo)], side)
        sets = ("batch.max_tokens=150", "grpo.max_draws=1", "grpo.steps=1")
        run(command, data, *sets, output=f"{side}-out").check_refused(2, "none of the 1 rows can be used")
        done = run(command, data, *sets, "model.max_pixels=16384", output=f"{side}-small")
        assert done.code == 0, done.err
        assert not (done.output / "left_out.jsonl").exists()


def test_free_text_without_a_judge(run: Command, write_shards: WriteShards, good: Any) -> None:
    """All rows: refused in one line. Some: left out, with a count at once and a reason each."""
    text = {"answer": "the one that leans on the other", "answer_type": "text"}
    rows = [{**each, **text} for each in good]
    data = write_shards(run.home / "all", rows, "rl")
    run("grpo", data).check_refused(2, f"the gold answer is free text in all {len(rows)} rows", "reward.roles.judge")
    data = write_shards(run.home / "some", [*good[1:], rows[0]], "rl")
    ran = run("grpo", data, "grpo.max_draws=1", "grpo.steps=4", output="some-out")
    assert ran.code == 0, ran.err
    assert f"trainer: 1 of {len(rows)} rows with free text as gold answer cannot be scored and are left out" in ran.err
    [line] = lines_of(ran.output / "left_out.jsonl")
    assert "the gold answer is free text" in line["reason"]
    with judging() as judge:
        sets = [f"reward.endpoints.own.{each}" for each in ("kind=openai", "model=m", f"base_url={judge.base_url}")]
        refused = run("grpo", run.home / "all", *sets, "reward.roles.judge=own", "batch.max_tokens=13")
    refused.check_refused(2, "rows can be used: see the reasons in left_out.jsonl")  # and not for its judge
    embedded = run("grpo", run.home / "all", "reward.roles.judge=coarse")
    embedded.check_refused(2, "but the config names no judge that can grade free text")


def test_an_answer_type_that_is_not_known(run: Command, write_shards: WriteShards, good: Any) -> None:
    """Its rows are left out, each with the reason, before anything is sampled for them."""
    data = write_shards(run.home / "angles", [*good[1:], {**good[0], "answer": "45", "answer_type": "angle"}], "rl")
    ran = run("grpo", data, "grpo.max_draws=1", "grpo.steps=4", output="angles-out")
    assert ran.code == 0, ran.err
    [line] = lines_of(ran.output / "left_out.jsonl")
    assert "the answer type 'angle' is unknown: add it to plugins.answer_types" in line["reason"]
