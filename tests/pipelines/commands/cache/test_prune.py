"""``beam cache prune``: what is dropped stays dropped."""

from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.inference.cache.replies import ReplyCache
from groundtrace.inference.cache.shared import SegmentStore, local_folder_of
from groundtrace.pipelines.commands.cache.places import CacheCommandError
from groundtrace.pipelines.commands.cache.prune import age_s
from groundtrace.schemas.safe_files import UnsafeFile

Command = Callable[..., int]


def keys(run: Path) -> set[str]:
    cache = ReplyCache(str(run / "cache/replies.sqlite"))
    found = {logged.entry.key for logged in cache.entries()}
    cache.close()
    return found


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        (["--model", "small"], {"c"}),
        (["--prompt", "judge.v1"], {"a", "b"}),
        (["--truncated"], {"a", "c"}),
        (["--model", "large", "--truncated"], {"a", "b", "c"}),
        (["--older-than", "0s"], set()),
        (["--older-than", "1h"], {"a", "b", "c"}),
        (["--older-than", "0.000001s", "--model", "large"], {"a", "b"}),
    ],
)
def test_prune_lasts_when_the_database_is_rebuilt(
    run: Path, command: Command, filters: list[str], left: set[str]
) -> None:
    assert command("prune", run, *filters, "--dry-run") == 0
    assert keys(run) == {"a", "b", "c"}
    assert command("prune", run, *filters) == 0
    assert keys(run) == left
    (run / "cache/replies.sqlite").write_bytes(b"damaged")
    assert keys(run) == left


def test_prune_tells_how_many(run: Path, command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    command("prune", run, "--truncated", "--dry-run")
    command("prune", run, "--truncated")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(" from ")[0] for line in printed] == ["1 reply would be dropped", "1 reply dropped"]


def test_prune_of_segments(shared: Path, tmp_path: Path, command: Command) -> None:
    assert command("prune", shared, "--model", "small") == 0
    for folder in (str(tmp_path / "another machine"), str(local_folder_of(str(shared)))):
        store = SegmentStore(str(shared), folder)
        assert {logged.entry.key for logged in store.entries()} == {"c"}
        store.close()


def test_prune_is_refused_while_the_cache_is_open(run: Path, command: Command) -> None:
    cache = ReplyCache(str(run / "cache/replies.sqlite"))
    with pytest.raises(CacheCommandError, match=r"another process has .* open"):
        command("prune", run, "--truncated")
    command("stats", run)
    cache.close()
    assert keys(run) == {"a", "b", "c"}


def test_ages() -> None:
    assert [age_s(text) for text in ("30d", "12h", "1.5m", "2w", "0s")] == [2_592_000, 43_200, 90, 1_209_600, 0]


@pytest.mark.parametrize("name", ["cache", "cache/log", "cache/segments"])
def test_nothing_is_dropped_through_a_link_in_a_run_folder(
    run: Path, command: Command, tmp_path: Path, name: str
) -> None:
    (run / "cache").rename(tmp_path / "mine")
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).symlink_to(tmp_path / ("mine" if name == "cache" else "mine/log"))
    before = {path: path.read_bytes() for path in (tmp_path / "mine").rglob("*") if path.is_file()}
    with pytest.raises(UnsafeFile, match=rf"^{run / name} is a link, but .*, or remove it$"):
        command("prune", run, "--older-than", "0s")
    assert {path: path.read_bytes() for path in (tmp_path / "mine").rglob("*") if path.is_file()} == before


def test_a_cache_folder_that_is_named_may_be_a_link(run: Path, command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(run / "cache")
    assert command("prune", tmp_path / "mine", "--model", "small") == 0
    assert keys(run) == {"c"}


def test_only_logs_are_dropped(run: Path, command: Command) -> None:
    others = ["letters.jsonl", "20260101T000000000000.jsonl"]
    for name in others:
        (run / "cache/log" / name).write_text("precious")
    assert command("prune", run, "--older-than", "0s") == 0
    assert all((run / "cache/log" / name).read_text() == "precious" for name in others)
    assert keys(run) == set()
