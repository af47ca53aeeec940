"""Files of a store and of the disk: they answer alike, appear whole, and outlast a store that is away for a while."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groundtrace.config.extras import MissingExtra
from groundtrace.schemas.errors import UserError
from groundtrace.storage.object_store import persistently
from groundtrace.storage.places import (
    Place,
    RemotePath,
    StorageError,
    StorageSettings,
    StoreUnavailable,
    check_bucket,
    place,
    write_whole,
    written_to,
)

from ..stores.faults import between

TREE = ["a.jsonl", "b/c.parquet", "b/d.txt", "b/e/f.parquet", "b2/g.parquet", "sp ace+#%20?ü[1]{x}.txt", "-.PARQUET"]
PATTERNS = ["*.jsonl", "*", "b/*", "b*/*.parquet", "**/*.parquet", "b/**/*.parquet", "?/e/*", "[ab]/*.txt", "no/*"]


@pytest.fixture(params=["s3", "gs"])
def bucket(request: pytest.FixtureRequest, new_bucket: Callable[[str], RemotePath]) -> RemotePath:
    """A bucket of its own, of each kind of store in turn: where stores differ is tested here."""
    return new_bucket(request.param)


def planted(root: Place) -> Place:
    for name in TREE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(root / name, name.encode())
    return root


def test_a_store_answers_as_the_disk_does(bucket: RemotePath, tmp_path: Path) -> None:
    here, there = planted(tmp_path), planted(bucket / "deep/root")
    assert [path.name for path in there.iterdir()] == sorted(path.name for path in here.iterdir())
    for pattern in PATTERNS:
        found = {str(path.relative_to(here)) for path in here.glob(pattern) if path.is_file()}
        assert {str(path.relative_to(there)) for path in there.glob(pattern) if path.is_file()} == found, pattern
    for name in [*TREE, "b", "b/e", "nothing", "b/c", "a.jsonl/x", "sp ace"]:
        for ask in ("is_file", "is_dir", "exists"):
            assert getattr(there / name, ask)() == getattr(here / name, ask)(), (name, ask)
    for name in TREE:
        assert (there / name).read_bytes() == (here / name).read_bytes() == name.encode()
        assert (there / name).stat().st_size == (here / name).stat().st_size
        assert ((there / name).suffix, (there / name).stem) == ((here / name).suffix, (here / name).stem)
    assert {str(path.relative_to(there)): stat.st_size for path, stat in there.walked().items()} == {
        name: len(name.encode()) for name in TREE
    }


def test_what_is_missing_is_missing(bucket: RemotePath) -> None:
    for read in (RemotePath.read_bytes, RemotePath.stat, RemotePath.open):
        with pytest.raises(FileNotFoundError, match="nothing"):
            read(bucket / "nothing")
    assert list((bucket / "nothing").iterdir()) == list((bucket / "nothing").walked()) == []
    (bucket / "nothing").unlink()
    (bucket / "x/y").write_bytes(b"")
    with pytest.raises(FileNotFoundError):
        (bucket / "x").stat()


@pytest.mark.parametrize("size", [0, 1, 1000, 9 * 2**20])
def test_streams_give_the_bytes(bucket: RemotePath, size: int, tmp_path: Path) -> None:
    data = (os.urandom(999) * (size // 999 + 1))[:size]
    with written_to(bucket / "file") as unfinished:
        unfinished.write_bytes(data)
    assert not unfinished.exists()
    assert (bucket / "file").read_bytes() == data
    assert (bucket / "file").read_bytes(1, 5) == data[1:5]
    assert (bucket / "file").read_bytes(size + 1, size + 9) == b""
    with (bucket / "file").open("rb") as stream:
        assert stream.read(3) == data[:3]
        stream.seek(-min(5, size), os.SEEK_END)
        assert stream.read() == (data[-5:] if size else b"")
        stream.seek(0)
        assert stream.read() == data


def test_text_and_lines(bucket: RemotePath) -> None:
    write_whole(bucket / "t", "ä\nb\r\n")
    assert (bucket / "t").read_text() == "ä\nb\r\n"
    with (bucket / "t").open(encoding="utf-8", newline="") as stream:
        assert list(stream) == ["ä\n", "b\r\n"]
    with pytest.raises(ValueError, match="opened only with the mode 'r' or 'rb', not 'w'"):
        (bucket / "t").open("w")


@pytest.mark.parametrize("data", [b"\n--==0==\n", b"x\n--==0==--\ny", b"--==0==", b"\r\n--\r\n"])
def test_bytes_that_look_like_a_part_of_the_protocol(bucket: RemotePath, data: bytes) -> None:
    (bucket / "odd").write_bytes(data)
    assert (bucket / "odd").read_bytes() == data
    assert (bucket / "new").create(data)
    assert (bucket / "new").read_bytes() == data


def test_one_of_several_creates_it(bucket: RemotePath) -> None:
    with ThreadPoolExecutor(4) as pool:
        names = [b"one", b"two", b"three", b"four"]
        made = dict(zip(names, pool.map((bucket / "lock").create, names), strict=True))
    assert [name for name in names if made[name]] == [(bucket / "lock").read_bytes()]
    assert (bucket / "lock").create((bucket / "lock").read_bytes())  # a request that was repeated
    assert not (bucket / "lock").create(b"late")


def test_nothing_is_written_where_the_body_raises(bucket: RemotePath) -> None:
    with pytest.raises(RuntimeError), written_to(bucket / "file") as unfinished:
        unfinished.write_bytes(b"half")
        raise RuntimeError
    assert not (bucket / "file").exists()


def test_a_version_changes_with_the_bytes(bucket: RemotePath) -> None:
    (bucket / "file").write_bytes(b"one")
    before = (bucket / "file").stat().version
    assert before and (bucket / "file").stat().version == before
    (bucket / "file").write_bytes(b"two")
    assert (bucket / "file").stat().version != before


@pytest.mark.parametrize(
    ("scheme", "how"),
    [
        ("s3", "cut"),
        ("gs", 503),
        *(pytest.param(*case, marks=pytest.mark.faults) for case in (("s3", 503), ("s3", "close"), ("gs", "close"))),
        pytest.param("gs", "cut", marks=pytest.mark.faults),
    ],
)
def test_an_outage_loses_nothing(
    scheme: str, how: int | str, request: pytest.FixtureRequest, new_bucket: Callable[..., RemotePath]
) -> None:
    with between(request.getfixturevalue(f"{scheme}_url")) as (url, faults):
        bucket = new_bucket(scheme, url)
        (bucket / "there").write_bytes(b"0" * 1000)
        faults.fail_for(0.2, how)
        (bucket / "file").write_bytes(b"1")
        assert faults.failed > 0
        for read in (lambda: (bucket / "there").read_bytes() == b"0" * 1000, lambda: (bucket / "there").is_file()):
            faults.fail_for(0.2, how)
            assert read()
        faults.fail_for(0.2, how)
        assert [path.name for path in bucket.iterdir()] == ["file", "there"]
        faults.fail_for(0.2, how)
        assert (bucket / "lock").create(b"mine")


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_store_that_stays_away(
    scheme: str, request: pytest.FixtureRequest, new_bucket: Callable[..., RemotePath]
) -> None:
    with between(request.getfixturevalue(f"{scheme}_url")) as (url, faults):
        bucket = new_bucket(scheme, url)
        impatient = RemotePath(f"{bucket}/x", StorageSettings(endpoint_url=url, gs_endpoint_url=url, retry_s=0.5))
        for how in (503, "close"):
            faults.fail_for(60, how)
            with pytest.raises(StoreUnavailable, match="does not serve"):
                impatient.write_bytes(b"1")
        faults.fail_for(60, 403)
        with pytest.raises(StorageError, match="access is denied") as found:
            impatient.read_bytes()
        assert isinstance(found.value, UserError) and "\n" not in str(found.value)


def test_bytes_that_came_wrong_are_asked_for_again(s3_url: str, new_bucket: Callable[..., RemotePath]) -> None:
    with between(s3_url) as (url, faults):
        path = new_bucket("s3", url) / "x"
        path.write_bytes(b"as it was sent")
        faults.fail_for(1, "flip")
        assert path.read_bytes() == b"as it was sent"
        assert faults.failed > 0


def test_one_request_that_hangs_is_repeated() -> None:
    tries = []

    def hangs_once() -> str:
        tries.append(0)
        if len(tries) == 1:
            time.sleep(0.3)
            raise TimeoutError("no reply")
        return "there"

    assert persistently("s3://b/x", 0.2, hangs_once) == "there"


def test_an_error_that_is_none_of_the_stores_comes_as_it_is() -> None:
    def breaks() -> None:
        raise LookupError("odd")

    with pytest.raises(LookupError, match="odd") as raised:
        persistently("s3://b/x", 0.1, breaks)
    assert raised.value.__cause__ is None, "an error that is its own cause keeps whoever looks for its cause for ever"


def test_no_such_bucket(bucket: RemotePath) -> None:
    other = RemotePath(f"{bucket}-other/x", bucket.storage)
    for write in (lambda: other.write_bytes(b"1"), lambda: other.create(b"1"), lambda: check_bucket(other)):
        with pytest.raises(StorageError, match=rf"there is no bucket {bucket.name}-other: "):
            write()
    check_bucket(bucket / "no/such/folder")


def test_no_credentials(s3_url: str, new_bucket: Callable[..., RemotePath], monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = new_bucket("s3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    at = StorageSettings(endpoint_url=s3_url, retry_s=29)
    with pytest.raises(StorageError, match=r"no credentials for s3://.*AWS_ACCESS_KEY_ID"):
        (RemotePath(bucket.url, at) / "x").read_bytes()
    named = StorageSettings(endpoint_url=s3_url, access_key_id_env="MY_ID", secret_access_key_env="MY_KEY")
    with pytest.raises(StorageError, match=r"^storage\.access_key_id_env names an .* variable MY_ID that is not set"):
        (RemotePath(bucket.url, named) / "x").write_bytes(b"1")
    mistaken = StorageSettings(endpoint_url=s3_url, access_key_id_env="MY_ID", secret_access_key_env="hush0hush")
    monkeypatch.setenv("MY_ID", "test")
    with pytest.raises(
        StorageError, match=r"^storage\.secret_access_key_env names an environment variable that is not set"
    ):
        (RemotePath(bucket.url, mistaken) / "x").write_bytes(b"1")
    monkeypatch.setenv("MY_KEY", "test")
    (RemotePath(bucket.url, named) / "x").write_bytes(b"1")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"s3:// needs the extra s3: pip install 'groundtrace\[s3\]'"):
        RemotePath("s3://b/x", StorageSettings(retry_s=7)).read_bytes()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ftp://b/x", "ftp:// is not supported"),
        ("hdfs://b/x", "use a local path, s3:// or gs://"),
        ("s3://", "has no bucket"),
        ("s3:///x", "has no bucket"),
        ("gs://b/../c", "must not hold"),
        ("s3://b/a\nb", "must not hold"),
        ("s3://AKIA:hush@b/x", "must not contain a key or password"),
        ("https://user:hush@b/x", "must not contain a key or password"),
    ],
)
def test_names_that_are_none(name: str, why: str) -> None:
    with pytest.raises(StorageError, match=why) as found:
        place(name)
    assert "hush" not in str(found.value)


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (
            {"AWS_ENDPOINT_URL": "http://user:hush@127.0.0.1:1"},
            "the environment variable AWS_ENDPOINT_URL is wrong. It must not hold a user",
        ),
        (
            {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1/?key=hush"},
            "variable AWS_ENDPOINT_URL_S3 is wrong. It must .* a user",
        ),
        ({"AWS_ENDPOINT_URL": "minio"}, "AWS_ENDPOINT_URL is wrong. It must be the URL of the store's server"),
        ({"AWS_ENDPOINT_URL": "http://no such host/"}, "not set up correctly"),
        (
            {"STORAGE_EMULATOR_HOST": "http://user:hush@127.0.0.1:1"},
            "the environment variable STORAGE_EMULATOR_HOST is wrong. It must not hold a user",
        ),
        ({"http_proxy": "http://user:hush@127.0.0.1:1"}, r"does not serve .*//\.\.\.@127"),
        ({"AWS_CONFIG_FILE": "broken", "AWS_PROFILE": "mine"}, "not set up correctly"),
    ],
)
def test_variables_that_are_none(
    variables: dict[str, str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standard = {"AWS_ENDPOINT_URL": "http://minio.example", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "hush"}
    (tmp_path / "broken").write_text("[profile mine]\naws_secret_access_key hush\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("groundtrace.storage.object_store._clients", {})
    for name, value in {**standard, **variables}.items():
        monkeypatch.setenv(name, value)
    scheme = "gs" if "STORAGE_EMULATOR_HOST" in variables else "s3"
    with pytest.raises((StorageError, StoreUnavailable), match=why) as found:
        place(f"{scheme}://b/x", StorageSettings(retry_s=0.1)).read_bytes()
    assert "hush" not in str(found.value)


def test_names() -> None:
    assert place("a/b") == Path("a/b")
    assert str(place("s3://b//x/./y/")) == "s3://b/x/y"
    path = place("gs://b/x/y.txt")
    assert isinstance(path, RemotePath)
    assert [str(each) for each in path.parents] == ["gs://b/x", "gs://b"]
    assert (str(path.bucket), str(path.with_name("z")), path.bucket.parent) == ("gs://b", "gs://b/x/z", path.bucket)
    with pytest.raises(ValueError, match="below"):
        path / "../z"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"endpoint_url": "minio:9000"}, "endpoint_url must be the URL of the store's server"),
        ({"gs_endpoint_url": "http://u:hush@h"}, "must not hold a user"),
        ({"access_key_id_env": "AKIA/hush+", "secret_access_key_env": "B"}, "name of an environment variable"),
        ({"access_key_id_env": "A"}, "only one of access_key_id_env and"),
        ({"retry_s": 0.0}, "greater than 0"),
    ],
)
def test_settings(values: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why) as found:
        StorageSettings(**values)
    assert "hush" not in str(found.value)


def _read(path: RemotePath) -> bytes:
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_another_process_uses_a_client_of_its_own(bucket: RemotePath, way: str) -> None:
    (bucket / "x").write_bytes(b"here")
    assert pickle.loads(pickle.dumps(bucket / "x")).read_bytes() == b"here"
    if way == "spawn":
        code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).read_bytes())"
        done = subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(bucket / "x"), capture_output=True, check=True
        )
        assert done.stdout == b"b'here'\n"
        return
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_read, (bucket / "x",)).get(30) == b"here"
