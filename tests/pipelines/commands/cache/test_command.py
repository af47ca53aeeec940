"""``beam cache``: mistakes end in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.commands.cache.places import CacheCommandError

Command = Callable[..., int]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["stats", "{tmp}/nothing"], "there is no reply cache at"),
        (["stats", "{tmp}/empty"], "there is no reply cache at"),
        (["stats", "nowhere://bucket/run"], "Unable to get filesystem|nowhere"),
        (["stats", "s3://"], "has no bucket"),
        (["prune", "{run}"], "prune needs --older-than, --model, --prompt or --truncated"),
        (["prune", "{run}", "--older-than", "30"], "must be an age such as 30d"),
        (["prune", "{run}", "--older-than", "-1d"], "must be an age such as 30d"),
        (["export", "{run}", "--to", "{tmp}/r.csv"], r"must name a \.jsonl or \.parquet file"),
        (["export", "{run}", "--to", "{tmp}/no/r.jsonl"], "No such file"),
        (["export", "{run}", "--to", "{tmp}/folder.jsonl"], "it is a folder"),
    ],
)
def test_mistakes_are_told_in_one_line(
    run: Path, tmp_path: Path, arguments: list[str], message: str, command: Command
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.jsonl").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CacheCommandError, match=message) as caught:
        command(*(each.format(tmp=tmp_path, run=run) for each in arguments[:2]), *_rest(arguments, tmp_path))
    assert "\n" not in str(caught.value)
    assert {path for path in tmp_path.rglob("*") if "cache" not in path.parts} == {
        path for path in before if "cache" not in path.parts
    }


def _rest(arguments: list[str], tmp: Path) -> list[str]:
    """The options, each joined with its value, so that a value may begin with a hyphen."""
    rest = [each.format(tmp=tmp) for each in arguments[2:]]
    return [f"{name}={value}" for name, value in zip(rest[::2], rest[1::2], strict=True)]
