from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.running.plan.local_run import RunFolderError
from groundtrace.pipelines.running.plan.options import OptionError
from groundtrace.pipelines.running.plan.places import cache_path, named_folder
from groundtrace.storage.places import StorageError
from groundtrace.storage.remote_path import RemotePath

REFUSED = ["sft", "rl/deep/er", "rejected", "previous", "media", "ledger", "report.html", ".staging", "run.json/x"]
TAKEN = ["cache", "cache/other", "replies", "."]


def test_replies_are_not_kept_where_a_run_takes_them_away(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "link").symlink_to(run / "sft")
    for name in REFUSED:
        with pytest.raises(
            OptionError, match=f"because each run replaces .*{name.split('/')[0]}, and the cache in it would be lost"
        ):
            cache_path(str(run / name), named_folder(str(run)))
    with pytest.raises(OptionError, match=r"because each run replaces .*run/sft, and"):
        cache_path(str(tmp_path / "link"), named_folder(str(run)))
    for name in TAKEN:
        assert cache_path(str(run / name), named_folder(str(run))) == str(run / name / "replies.sqlite")
    assert cache_path(None, named_folder(str(run))) == str(run / "cache/replies.sqlite")
    assert cache_path(str(tmp_path / "run2/sft"), named_folder(str(run))) == str(tmp_path / "run2/sft/replies.sqlite")
    assert cache_path("s3://bucket/run/sft/", named_folder(str(run))) == "s3://bucket/run/sft/replies.sqlite"


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_not_the_cache_of_the_run(name: str, tmp_path: Path) -> None:
    """A variable that is not set would have its user pay again for the replies in the cache that it should name."""
    with pytest.raises(OptionError, match=r"^--cache is empty: name a folder, or leave out --cache"):
        cache_path(name, named_folder(str(tmp_path / "run")))


def test_a_run_folder_is_not_its_cache(tmp_path: Path) -> None:
    (tmp_path / "old/cache").mkdir(parents=True)
    (tmp_path / "old/cache/replies.sqlite").touch()
    run = named_folder(str(tmp_path / "run"))
    with pytest.raises(OptionError, match=r"old is a run folder, not a cache: write --cache .*/old/cache instead$"):
        cache_path(str(tmp_path / "old"), run)
    (tmp_path / "old/replies.sqlite").touch()
    assert cache_path(str(tmp_path / "old"), run) == str(tmp_path / "old/replies.sqlite")


def test_nor_in_a_store(new_bucket: Callable[..., RemotePath]) -> None:
    run = new_bucket("s3") / "run"
    folder = named_folder(str(run))
    with pytest.raises(OptionError, match=r"because each run replaces .*run/sft, and"):
        cache_path(f"{run}//sft/", folder)
    assert cache_path(f"{run}/replies/", folder) == f"{run}/replies/replies.sqlite"
    assert cache_path(f"{run}2/sft", folder) == f"{run}2/sft/replies.sqlite"
    assert cache_path(None, folder) == f"{run}/cache/replies.sqlite"
    with pytest.raises(StorageError, match="must not contain a key or password"):
        cache_path("s3://KEY:hush@bucket/x", folder)


NAMES = [("~", "home"), ("~/runs/a", "home/runs/a"), ("runs/a", "runs/a"), ("a~b", "a~b"), ("~no-such-user/a",) * 2]


@pytest.mark.parametrize(("name", "path"), NAMES)
def test_a_home_folder_is_expanded(name: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert named_folder(name).root == tmp_path / path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("file:///tmp/run", "file:// is not supported: use a local path, s3:// or gs://"),
        ("s3:///run", "has no bucket"),
    ],
)
def test_a_url_that_is_no_run_folder(name: str, why: str) -> None:
    with pytest.raises(StorageError, match=why):
        named_folder(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "--output is empty"),
        (" ", "--output is empty"),
        ("s3:/b/run", r"write s3://b/run, or \./s3:/b/run"),
        ("gs:b", "write gs://b,"),
        ("a" * 256, r"^cannot write .{80} \(File name too long\): choose another"),
        ("\udcff", r"'\\udcff', because the name is not UTF-8: choose another"),
    ],
)
def test_a_name_that_no_run_folder_has(name: str, why: str) -> None:
    with pytest.raises(RunFolderError, match=why):
        named_folder(name)


@pytest.mark.parametrize("name", ["loop", "loop/run"])
def test_a_link_to_itself_is_no_run_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(RunFolderError, match=r"^cannot write .*loop.*: choose another"):
        named_folder(str(tmp_path / name)).prepare("data", "aa", resume=True)
