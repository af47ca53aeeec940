from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.pipelines.running.cache_place import cache_path
from groundtrace.pipelines.running.run_folder import named_folder
from groundtrace.pipelines.running.runner import OptionError
from groundtrace.storage.places import StorageError
from groundtrace.storage.remote_path import RemotePath

REFUSED = ["sft", "rl/deep/er", "rejected", "previous", "media", "ledger", "report.html", ".staging", "run.json/x"]
TAKEN = ["cache", "cache/other", "replies", "."]


def test_replies_are_not_kept_where_a_run_takes_them_away(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "link").symlink_to(run / "sft")
    for name in REFUSED:
        with pytest.raises(OptionError, match=f"rewrites {name.split('/')[0]} in its folder, so the replies there"):
            cache_path(str(run / name), named_folder(str(run)))
    with pytest.raises(OptionError, match="rewrites sft in its folder"):
        cache_path(str(tmp_path / "link"), named_folder(str(run)))
    for name in TAKEN:
        assert cache_path(str(run / name), named_folder(str(run))) == str(run / name / "replies.sqlite")
    assert cache_path(None, named_folder(str(run))) == str(run / "cache/replies.sqlite")
    assert cache_path(str(tmp_path / "run2/sft"), named_folder(str(run))) == str(tmp_path / "run2/sft/replies.sqlite")
    assert cache_path("s3://bucket/run/sft/", named_folder(str(run))) == "s3://bucket/run/sft/replies.sqlite"


def test_nor_in_a_store(new_bucket: Callable[..., RemotePath]) -> None:
    run = new_bucket("s3") / "run"
    folder = named_folder(str(run))
    with pytest.raises(OptionError, match="rewrites sft in its folder"):
        cache_path(f"{run}//sft/", folder)
    assert cache_path(f"{run}/replies/", folder) == f"{run}/replies/replies.sqlite"
    assert cache_path(f"{run}2/sft", folder) == f"{run}2/sft/replies.sqlite"
    assert cache_path(None, folder) == f"{run}/cache/replies.sqlite"
    with pytest.raises(StorageError, match="no key or password"):
        cache_path("s3://KEY:hush@bucket/x", folder)
