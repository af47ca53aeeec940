"""Shards that another person made, with images that fill the memory, and real shards with many or large images."""

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groundtrace.publishing.reading import SHARDS
from groundtrace.storage import image_check, row_sizes
from groundtrace.storage.image_check import ROWS_AT_ONCE, check_images
from groundtrace.storage.shard_fault import ShardFault

IMAGES = SHARDS["sft"].field("images").type
LARGE = pa.large_list(pa.struct([("bytes", pa.large_binary()), ("path", pa.large_string())]))
KIB = 2**10
MIB = 2**20
NOISE = Random(0).randbytes(16 * KIB)


def images(*rows: list[tuple[bytes | None, str | None]] | None, kind: pa.DataType = IMAGES) -> pa.Array:
    """A column of images, from the bytes and the name of each."""
    return pa.array([row and [{"bytes": data, "path": name} for data, name in row] for row in rows], kind)


def shard(folder: Path, column: str, values: pa.Array, **options: Any) -> Path:
    table = pa.table({"id": [str(row) for row in range(len(values))], column: values})
    pq.write_table(table, folder / "a.parquet", **{"compression": "zstd", "dictionary_pagesize_limit": 2**30} | options)
    return folder / "a.parquet"


@pytest.fixture
def a_mebibyte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the limit for the images of rows to a mebibyte and 8 times the size of the file."""
    monkeypatch.setattr(image_check, "MAX_IMAGE_BYTES", MIB)


@pytest.mark.parametrize("column", ["images", "overlays"])
@pytest.mark.parametrize("kind", [IMAGES, LARGE], ids=["plain types", "large types"])
@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([[(NOISE, "a")] * 120], {}),
        ([[(NOISE, "a")] * 16] * 8, {}),
        ([None, *[[(NOISE, "a")] * 16] * 8], {"row_group_size": 4}),
        ([[(b"0" * KIB * 500, "a")]] * 8, {"use_dictionary": False, "row_group_size": 1}),
    ],
    ids=["one row", "eight rows", "two row groups", "compressed rows"],
)
def test_images_of_few_rows_that_fill_the_memory_are_refused(
    rows: Any, options: dict[str, Any], kind: pa.DataType, column: str, a_mebibyte: None, tmp_path: Path
) -> None:
    """Many images that share one value, and images that are well compressed."""
    with pytest.raises(
        ShardFault,
        match=r"^the images of .*a\.parquet would fill the memory: 8 rows have images of [1-4] MiB in the column "
        rf"{column}, but the limit is 1 MiB \(1 MiB and 8 times the size of the file\): use PNG or JPEG instead of raw "
        r"pixels in the input, and repeat the run$",
    ):
        check_images(shard(tmp_path, column, images(*rows, kind=kind), **options))


def test_the_images_of_a_block_of_rows_that_is_compressed_are_refused(a_mebibyte: None, tmp_path: Path) -> None:
    """A program decompresses all rows of a page to read one."""
    zeros = images(*[[(b"0" * KIB * 50, "a")]] * 50)
    with pytest.raises(
        ShardFault, match=r"memory: a block of rows has images of 2 MiB in the column images, but the li"
    ):
        check_images(shard(tmp_path, "images", zeros, use_dictionary=False))


@pytest.mark.parametrize("options", [{}, {"row_group_size": 16}, {"use_dictionary": False, "compression": "none"}])
@pytest.mark.parametrize(
    "rows",
    [
        [[(NOISE, "a")]] * 100,
        [[(Random(row * 9 + frame).randbytes(KIB * 16), f"{row}-{frame}") for frame in range(32)] for row in range(12)],
        [[(Random(row).randbytes(MIB), "a")] for row in range(9)],
        [[(NOISE, "a")] * 2, None, [], [(None, None)], [(b"", "")]] * 20,
    ],
    ids=["one image in all rows", "frames of clips", "large images", "rows without images"],
)
def test_the_images_of_a_run(rows: Any, options: dict[str, Any], a_mebibyte: None, tmp_path: Path) -> None:
    check_images(shard(tmp_path, "images", images(*rows), **options))


def test_the_bytes_of_small_images_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_check, "_check_bytes", lambda *_: pytest.fail("the bytes are read"))
    check_images(shard(tmp_path, "images", images(*[[(NOISE, "a")]] * 100)))


def test_the_limit_of_rows_at_once_holds_for_all_that_follow_each_other(a_mebibyte: None, tmp_path: Path) -> None:
    """The limit is for any 8 rows, not only for those from a multiple of 8."""
    large = [(NOISE, "a")] * 16
    rows: list[Any] = [None] * 5 + [large] * ROWS_AT_ONCE + [None] * 5
    with pytest.raises(ShardFault, match="8 rows have images of 2 MiB in the column images"):
        check_images(shard(tmp_path, "images", images(*rows), row_group_size=3))
    apart = images(*([large] * 4 + [None] * ROWS_AT_ONCE) * 3)
    check_images(shard(tmp_path, "images", apart, row_group_size=3))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[(b"", "")] * 300_000], "a row has 82 MiB, but the limit is 64 MiB"),
        ([[(b"", "")] * 200_000] * 19, "the sum of its rows has 1,044 MiB, but the limit is 1,024 MiB"),
        ([[(b"", "a" * 60_000)] * 2_000], "a row has 115 MiB, but the limit is 64 MiB"),
        ([[(b"", "a" * 60_000)] * 10] * 2_000, "a block of 1000 rows has 575 MiB, but the limit is 512 MiB"),
    ],
    ids=["images of a row", "all images", "names of a row", "names of 1000 rows"],
)
def test_too_many_images_and_names_are_refused(
    rows: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "block" in said:
        monkeypatch.setattr(row_sizes, "MAX_ROWS_BYTES", 2**29)
    kind = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.dictionary(pa.int32(), pa.string()))]))
    column = pa.array([[{"bytes": data, "path": name} for data, name in row] for row in rows[:1]], kind)
    column = column.take(pa.array([0] * len(rows)))
    with pytest.raises(
        ShardFault,
        match=rf"a\.parquet is too large to be read: in the column images, without the bytes of the images, {said}\. "
        r"Use fewer images in a record of the input, and repeat the run$",
    ):
        check_images(shard(tmp_path, "images", column, store_schema=False))


def test_the_names_of_images(tmp_path: Path) -> None:
    named = images([(b"a", "b" * (image_check.MAX_NAME_BYTES + 1))] * 9)
    with pytest.raises(ShardFault, match=r"the file name of an image has more than 65536 bytes \(column images of "):
        check_images(shard(tmp_path, "images", named))
    check_images(shard(tmp_path, "images", images([(b"a", "b" * image_check.MAX_NAME_BYTES)] * 9)))


@pytest.mark.parametrize("options", [{}, {"row_group_size": 700}, {"use_dictionary": False}])
def test_images_with_many_names_in_several_row_groups(options: dict[str, Any], tmp_path: Path) -> None:
    """Each row group has its own dictionary, and a dictionary that becomes too large is continued as plain texts."""
    named = images(*[[(b"a", f"{row}" * 200)] for row in range(3000)])
    options = {"dictionary_pagesize_limit": 2**20} | options
    check_images(shard(tmp_path, "images", named, **options))


def test_an_image_with_more_fields_is_refused(tmp_path: Path) -> None:
    """Their values would not count for any limit."""
    values = pa.array([[{"bytes": b"a", "path": "a", "note": "a"}]])
    with pytest.raises(
        ShardFault,
        match=r"^the images in the column images of .* have more fields than bytes and path: repeat the run$",
    ):
        check_images(shard(tmp_path, "images", values))


def test_the_check_does_not_import_pandas(tmp_path: Path) -> None:
    """The import takes 0.3 s, and most commands do not need it. The low limit makes the check read the bytes, too."""
    file = shard(tmp_path, "images", images([(NOISE, "a"), (NOISE[1:], None)], None))
    code = (
        "import pathlib, sys; from groundtrace.storage import image_check; image_check.MAX_IMAGE_BYTES = 0; "
        "image_check.check_images(pathlib.Path(sys.argv[1])); sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(file)], check=False).returncode == 0
