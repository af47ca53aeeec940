"""A data set in a folder reads files of this folder only, whatever its header, links and lists of files name."""

import gzip
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from groundtrace.pipelines.commands.cli import main
from groundtrace.schemas.errors import UserError
from groundtrace.stages.sources.base import InputError, RowSettings, Source
from groundtrace.stages.sources.data_folders import open_folder, saved_split
from groundtrace.stages.sources.hf_datasets import DataSets
from groundtrace.vision.media import MediaNotAllowed, MediaStore

SECRET = "a secret of the user"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a data file, beside private files of the user."""
    private = tmp_path / "private"
    private.mkdir()
    for name in ("secret.txt", "instruction.md", "b.txt"):
        (private / name).write_text(f"{SECRET}\n")
    (private / "secret.txt.gz").write_bytes(gzip.compress(f"{SECRET}\n".encode()))
    (tmp_path / "data/deep").mkdir(parents=True)
    (tmp_path / "data/a.txt").write_text("of the data set\n")
    (tmp_path / "data/deep/b.txt").write_text("of the data set\n")
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def beside(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder is the folder of the private files, and no other machine can be asked."""
    monkeypatch.chdir(data.parent / "private")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    yield


def texts(folder: Path, **rows: Any) -> list[str]:
    return [row["text"] for row in open_folder(str(folder), RowSettings(**rows))]


def put_header(folder: Path, name: str, **config: Any) -> None:
    header = yaml.safe_dump({"configs": [{"config_name": "default", **config}]})
    (folder / name).write_text(header if name.endswith(".yaml") else f"---\n{header}---\n# Data\n")


HEADERS: list[dict[str, Any]] = [
    {"data_files": "{private}/secret.txt"},
    {"data_files": ["a.txt", "{private}/secret.txt"]},
    {"data_files": ["a.txt", "../private/secret.txt"]},
    {"data_files": ["a.txt", "deep/../../private/*.txt"]},
    {"data_files": [{"split": "train", "path": "a.txt"}, {"split": "test", "path": ["{private}/*.txt"]}]},
    {"data_files": [{"split": "train", "path": ["a.txt", "{private}/secret.txt.gz"]}]},
    {"data_files": ["a.txt", "file://{private}/secret.txt"]},
    {"data_files": ["a.txt", "file:{private}/secret.txt"]},
    {"data_files": ["a.txt", "local:{private}/secret.txt"]},
    {"data_files": ["a.txt", "file:secret.txt"]},
    {"data_files": ["a.txt", "gzip://secret.txt::{private}/secret.txt.gz"]},
    {"data_files": ["a.txt", "http://127.0.0.1:9/secret.txt"]},
    {"data_files": ["a.txt", "hf://datasets/mine/private/secret.txt"]},
    {"data_files": "*.txt", "data_dir": "../private"},
    {"data_dir": "{private}"},
]


@pytest.mark.parametrize("name", ["README.md", ".huggingface.yaml"])
@pytest.mark.parametrize("config", HEADERS, ids=str)
def test_a_header_that_names_files_elsewhere_is_refused(config: dict[str, Any], name: str, data: Path) -> None:
    filled = json.loads(json.dumps(config).replace("{private}", str(data.parent / "private")))
    put_header(data, name, **filled)
    said = rf"the file {data / name} names data files outside its folder \('.+' in 'configs'\): remove this entry"
    with pytest.raises(InputError, match=said):
        texts(data)
    with pytest.raises(InputError, match=said):
        DataSets().find(str(data), data, RowSettings())


def test_every_config_of_a_header_is_checked(data: Path) -> None:
    configs = [{"config_name": "a", "data_files": "a.txt"}, {"config_name": "b", "data_files": "/etc/hostname"}]
    (data / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': configs})}---\n")
    with pytest.raises(InputError, match="names data files outside its folder"):
        texts(data, name="a")


INSIDE: list[tuple[dict[str, Any], int]] = [
    ({"data_files": "a.txt"}, 1),
    ({"data_files": "*.txt"}, 1),
    ({"data_files": "**"}, 2),
    ({"data_files": [{"split": "train", "path": ["./a.txt", "deep/*"]}]}, 2),
    ({"data_dir": "deep"}, 1),
    ({}, 2),
]


@pytest.mark.parametrize("name", ["README.md", ".huggingface.yaml"])
@pytest.mark.parametrize(("config", "number"), INSIDE, ids=str)
def test_a_header_names_files_of_its_folder(config: dict[str, Any], number: int, name: str, data: Path) -> None:
    put_header(data, name, **config)
    assert texts(data) == ["of the data set"] * number


@pytest.mark.parametrize("header", ["# Data\n", "---\nconfigs: nonsense\n---\n", "---\nconfigs: [1]\n---\n"])
def test_a_header_of_another_form_is_left_to_the_library(header: str, data: Path) -> None:
    (data / "README.md").write_text(header)
    if header.startswith("#"):
        assert len(texts(data)) == 2
    else:
        with pytest.raises((ValueError, TypeError)):
            texts(data)


LINKS = [
    ("b.txt", "../private/b.txt", {}),
    ("b.txt.gz", "../private/secret.txt.gz", {}),
    ("twice.txt", "once.txt", {}),
    ("more", "../private", {"data_files": "more/secret.txt"}),
    ("more", "../private", {"data_files": "more/*.txt"}),
]


@pytest.mark.parametrize(("link", "target", "header"), LINKS)
def test_a_data_file_that_leaves_the_folder_is_refused(
    link: str, target: str, header: dict[str, Any], data: Path
) -> None:
    if link == "twice.txt":
        (data / "once.txt").symlink_to("../private/b.txt")
    (data / link).symlink_to(target)
    if header:
        put_header(data, "README.md", **header)
    with pytest.raises(InputError, match=rf"the data set in the folder {data} has a data file outside this folder \("):
        texts(data)


CHAINS = [
    ("k.txt", "../private/secret.txt", "k.txt::z.txt", "*z.txt"),
    ("k.txt", "../private/secret.txt", "k.txt::z.txt", "**"),
    ("deep/k.txt", "../../private/secret.txt", "deep/k.txt::/b.txt", "deep/k.txt*/b.txt"),
    ("l.txt.gz", "../private/secret.txt.gz", "l.txt.gz::z.txt", "*z.txt"),
    ("l.png", "../private/secret.txt", "l.png::z.png", "*z.png"),
]


@pytest.mark.parametrize(("link", "target", "chain", "pattern"), CHAINS)
def test_a_name_that_the_library_reads_as_a_chain_is_refused(
    link: str, target: str, chain: str, pattern: str, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / link).symlink_to(target)
    (data / chain).parent.mkdir(exist_ok=True)
    (data / chain).write_text("x\n")
    put_header(data, "README.md", data_files=pattern)
    said = f"the path '{data / chain}' has '::' or '://', so the package `datasets` would open another file: rename"
    with pytest.raises(InputError, match=said):
        texts(data)
    assert main(["validate", "grounded_cot", "--input", str(data)]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"beam: {said}") and err.count("\n") == 1 and SECRET not in out


ODD_NAMES = ["a[1].txt", "a*.txt", "~.txt", "%2e%2e.txt", "a?b#c.txt", "hf:.txt", "a b;c.txt"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_other_signs_in_a_name_are_its_own(name: str, data: Path) -> None:
    """The library rewrites no other name: a pattern in the name of a file leads to this file only."""
    (data / "own").mkdir()
    text = b"of the data set\n"
    (data / "own" / name).write_bytes(text)
    (data / "own/a1.txt").symlink_to("own.txt")
    (data / "own/own.txt").write_bytes(text)
    (data / "own/ab.txt").write_bytes(text)
    assert texts(data / "own") == ["of the data set"] * 4


MEMBERS = [
    ("word::{private}/report.docx/document.txt", True),
    ("word::file://{private}/report.docx/document.txt", True),
    ("a::b.txt", True),
    ("a*.txt", False),
    ("a.txt", False),
]


@pytest.mark.parametrize(("member", "is_refused"), MEMBERS)
def test_a_name_in_an_archive_is_in_this_archive(member: str, is_refused: bool, tmp_path: Path, data: Path) -> None:
    private = data.parent / "private"
    with zipfile.ZipFile(private / "report.docx", "w") as report:
        report.writestr("word/document.txt", SECRET)
    (tmp_path / "packed").mkdir()
    with zipfile.ZipFile(tmp_path / "packed/a.zip", "w") as archive:
        archive.writestr("own.txt", "of the data set\n")
        archive.writestr(member.format(private=private), "of the data set\n")
    if is_refused:
        with pytest.raises(
            InputError, match=r"the archive .+a\.zip holds the file '.+', whose name has '::', so the package"
        ):
            texts(tmp_path / "packed")
    else:
        assert texts(tmp_path / "packed") == ["of the data set"] * 2


NESTED = ", ".join(f"&a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
"""Eleven lists; each holds the list before it ten times."""


@pytest.mark.parametrize(
    "files",
    ["&a [*a]", f"[&a0 [x, x], {NESTED}]"],
    ids=["a list in itself", "a list of lists of lists"],
)
def test_a_header_with_more_values_than_bytes_is_refused(files: str, data: Path) -> None:
    (data / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files: {files}\n---\n")
    with pytest.raises(
        InputError,
        match=r"README\.md lists more than 1000000 data files or splits: shorten this list",
    ):
        texts(data)


@pytest.mark.parametrize("name", ["README.md", ".huggingface.yaml"])
def test_a_header_that_leaves_the_folder_is_refused(name: str, data: Path) -> None:
    put_header(data.parent / "private", name, data_files="a.txt")
    (data / name).symlink_to(f"../private/{name}")
    with pytest.raises(InputError, match=rf"has a data file outside this folder \({data / name}\)"):
        texts(data)


def test_links_within_the_folder_are_followed(data: Path) -> None:
    (data / "c.txt").symlink_to("deep/b.txt")
    (data.parent / "link").symlink_to("data")
    assert len(texts(data)) == len(texts(data.parent / "link")) == 3


def test_a_snapshot_of_the_hub_is_a_folder_of_links(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/f00").write_text("of the data set\n")
    (revision := tmp_path / "snapshots/0123abc").mkdir(parents=True)
    (revision / "a.txt").symlink_to("../../blobs/f00")
    assert texts(revision) == ["of the data set"]
    (revision / "b.txt").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="has a data file outside this folder"):
        texts(revision)


def test_an_image_that_is_a_link_to_another_place_is_refused_alone(
    write_scene: Callable[..., Path], tmp_path: Path, read: Callable[..., list[Any]]
) -> None:
    private = write_scene(tmp_path / "private.png")
    own = write_scene(tmp_path / "images/a.png")
    (tmp_path / "images/b.png").symlink_to(private)
    (tmp_path / "images/metadata.csv").write_text("file_name,question,answer\na.png,How many?,3\nb.png,How many?,3\n")
    store = MediaStore(str(tmp_path / "images"), str(tmp_path / "run"))
    media = [found["media"][0] for _, found in read(Source("datasets", str(tmp_path / "images")))]
    assert [store.open_bytes(uri) for uri in media if uri.endswith("a.png")] == [own.read_bytes()]
    with pytest.raises(MediaNotAllowed):
        store.open_bytes("input:b.png")


def test_the_table_of_an_image_folder_is_a_data_file(write_scene: Callable[..., Path], tmp_path: Path) -> None:
    write_scene(tmp_path / "images/a.png")
    (tmp_path / "private.csv").write_text(f"file_name,question\na.png,{SECRET}\n")
    (tmp_path / "images/metadata.csv").symlink_to("../private.csv")
    with pytest.raises(InputError, match="has a data file outside this folder"):
        texts(tmp_path / "images")


def test_hdf5_is_refused(tmp_path: Path) -> None:
    """Such a file may name other files as its raw storage."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own/a.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(InputError, match="cannot be an input, because its files have the format hdf5: convert them"):
        texts(tmp_path / "own")


def test_a_format_whose_reader_opens_other_files_is_refused(tmp_path: Path, data: Path) -> None:
    (tmp_path / "tasks/one").mkdir(parents=True)
    (tmp_path / "tasks/one/task.toml").write_text("[task]\nname = 'a'\n")
    (tmp_path / "tasks/one/instruction.md").symlink_to(data.parent / "private/instruction.md")
    put_header(tmp_path / "tasks", "README.md", data_files="**/task.toml")
    with pytest.raises(InputError, match="cannot be an input, because its files have the format harbor: convert them"):
        texts(tmp_path / "tasks")


PIPES = [".huggingface.yaml", "README.md", "state.json", "dataset_dict.json"]


@pytest.mark.parametrize("name", PIPES)
def test_a_pipe_in_place_of_a_header_is_not_opened(name: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(data / name)
    assert main(["validate", "grounded_cot", "--input", str(data)]) == 2
    err = capsys.readouterr().err
    if not name.startswith(("state", "data")):  # they do not make the folder a saved data set, so nobody reads them
        assert err == f"beam: {data / name} is not a regular file, but a pipe: move it away\n"


@pytest.mark.parametrize("is_dict", [False, True])
@pytest.mark.parametrize(
    ("name", "filename"), [("dataset_info.json", ""), ("pipe.arrow", "pipe.arrow"), ("", "{private}/pipe.arrow")]
)
def test_a_saved_data_set_with_a_pipe_is_not_opened(name: str, filename: str, is_dict: bool, tmp_path: Path) -> None:
    saved = datasets.Dataset.from_dict({"text": [SECRET]})
    (datasets.DatasetDict({"train": saved}) if is_dict else saved).save_to_disk(tmp_path / "own")
    (private := tmp_path / "outside").mkdir()
    os.mkfifo(private / "pipe.arrow")
    folder = tmp_path / "own" / ("train" if is_dict else "")
    if name:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    if filename:
        state = json.loads((folder / "state.json").read_text())
        state["_data_files"] = [{"filename": filename.format(private=private)}]
        (folder / "state.json").write_text(json.dumps(state))
    said = "is not a regular file, but a pipe" if name else "has a data file outside this folder"
    for read in (open_folder, saved_split):
        with pytest.raises(UserError, match=said):
            read(str(tmp_path / "own"), RowSettings())


@pytest.mark.parametrize("split", ["../private", "{private}", "file://{private}", "a::{private}"])
def test_no_split_of_a_saved_data_set_leaves_the_folder(split: str, tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"text": [SECRET]}).save_to_disk(tmp_path / "private")
    (tmp_path / "own").mkdir()
    split = split.format(private=tmp_path / "private")
    (tmp_path / "own/dataset_dict.json").write_text(json.dumps({"splits": [split]}))
    with pytest.raises(InputError, match=r"has a data file outside this folder|has '::' or '://'"):
        saved_split(str(tmp_path / "own"), RowSettings(split=split))


@pytest.mark.parametrize("is_dict", [False, True])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_saved_data_set_has_its_own_files_only(is_absolute: bool, is_dict: bool, tmp_path: Path) -> None:
    for name, text in (("own", "of the data set"), ("private", SECRET)):
        saved = datasets.Dataset.from_dict({"text": [text]})
        (datasets.DatasetDict({"train": saved}) if is_dict else saved).save_to_disk(tmp_path / name)
    assert texts(tmp_path / "own") == ["of the data set"]
    within = "train/" if is_dict else ""
    [secret] = (tmp_path / "private").rglob("*.arrow")
    file = tmp_path / "own" / within / "state.json"
    state = json.loads(file.read_text())
    state["_data_files"] = [{"filename": str(secret) if is_absolute else os.path.relpath(secret, file.parent)}]
    file.write_text(json.dumps(state))
    for read in (open_folder, saved_split):
        with pytest.raises(InputError, match="has a data file outside this folder"):
            read(str(tmp_path / "own"), RowSettings())


def test_all_splits_of_a_saved_data_set_are_checked(tmp_path: Path) -> None:
    """The library opens all of them, whichever is wanted."""
    saved = datasets.Dataset.from_dict({"text": ["of the data set"]})
    datasets.DatasetDict({"train": saved, "test": saved}).save_to_disk(tmp_path / "own")
    file = tmp_path / "own/test/state.json"
    state = json.loads(file.read_text())
    file.write_text(json.dumps(state | {"_data_files": [{"filename": "/etc/hostname"}]}))
    with pytest.raises(InputError, match=r"has a data file outside this folder \(/etc/hostname\)"):
        saved_split(str(tmp_path / "own"), RowSettings())
