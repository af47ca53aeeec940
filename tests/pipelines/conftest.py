"""Inputs written to disk, and the ``beam`` command run on them, in this process or in one of its own."""

import contextlib
import io
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from groundtrace import pipelines
from groundtrace.pipelines.commands.cli import main

from . import short_recipe

PIPELINE = str(Path(pipelines.__file__).parent / "grounded_cot.py")
COLOURS = {"red": (220, 30, 30), "blue": (0, 153, 255), "yellow": (255, 255, 0), "black": (0, 0, 0)}
FIELDS = {"source": "drawn", "license": "CC0-1.0", "question": "How many squares are there?", "answer": "3"}


@dataclass(frozen=True)
class Ran:
    """What a command left: exit code, output, and the run folder."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def counts(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text("utf-8"))["counts"]

    def rows(self, side: str) -> list[dict[str, Any]]:
        files = sorted((self.folder / side).glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    @property
    def ends(self) -> dict[str, str]:
        """Where each id ended: sft, rl, or the reason of its rejection; fails on an id that ended twice."""
        found = [(row["id"], side) for side in ("sft", "rl") for row in self.rows(side)]
        found += [(row["id"], row["reason"]) for row in self.rows("rejected")]
        assert len(dict(found)) == len(found)
        return dict(found)

    def check_balance(self, records: int) -> None:
        """Every record stands in exactly one output, and run.json says so."""
        counts = self.counts
        by_reason = sum(n for reasons in counts["rejected"].values() for n in reasons.values())
        written = {side: len(self.rows(side)) for side in ("sft", "rl", "rejected")}
        assert written == {"sft": counts["sft"], "rl": counts["rl"], "rejected": by_reason}
        assert counts["input"] == sum(written.values()) == records == len(self.ends)

    def check_refused(self, code: int, message: str) -> None:
        """The command ended with this exit code and one readable line."""
        assert "Traceback" not in self.err
        assert (self.code, self.out) == (code, "")
        lines = self.err.splitlines()
        [line] = [line for line in lines if " done, " not in line and not line.startswith("runner: ")]
        assert line.startswith("beam: ")
        assert message in line


@pytest.fixture(scope="session")
def write_records() -> Callable[[Path, Iterable[Mapping[str, Any] | bytes]], Path]:
    """Write ``records.jsonl``; dicts are completed to valid records, bytes stand there as they are."""

    def write(folder: Path, rows: Iterable[Mapping[str, Any] | bytes]) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, bytes) else json.dumps(FIELDS | dict(row)).encode() + b"\n" for row in rows]
        (folder / "records.jsonl").write_bytes(b"".join(lines))
        return folder

    return write


@pytest.fixture(scope="session")
def write_scene() -> Callable[..., Path]:
    """Draw squares of the named colours in a row on light grey, in the format that the path's extension says."""

    def write(path: Path, squares: Sequence[str] = ("red", "blue", "black"), width: int = 160) -> Path:
        picture = np.full((80, width, 3), 211, np.uint8)
        for index, colour in enumerate(squares):
            left = 8 + 24 * index
            picture[30:50, left : left + 20] = COLOURS[colour]
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), picture[:, :, ::-1])
        return path

    return write


def _write_odd_media(folder: Path, write_scene: Callable[..., Path]) -> None:
    """One picture of each odd kind, a broken one of each kind, a link out of the folder, a clip, and one cut short."""
    scene = Image.open(write_scene(folder / "a.png"))
    scene.load()
    write_scene(folder.parent / "outside.png", ["red"] * 3)
    (folder / "link.png").symlink_to(folder.parent / "outside.png")
    exif = Image.Exif()
    exif[274] = 6
    scene.save(folder / "turned.jpg", exif=exif)
    scene.convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray(np.asarray(scene.convert("L")).astype(np.uint16) * 257).save(folder / "deep.png")
    scene.convert("P").save(folder / "palette.png", transparency=0)
    Image.new("LA", (60, 40), (0, 0)).save(folder / "alpha.png")
    scene.convert("1").save(folder / "bits.png")
    scene.resize((5, 5)).save(folder / "tiny.png")
    Image.new("RGB", (2520, 8526), (211, 211, 211)).save(folder / "tall.png")
    write_scene(folder / "other.png", ["blue"] * 4).rename(folder / "png.jpg")
    (folder / "cut.png").write_bytes((folder / "a.png").read_bytes()[:-30])
    (folder / "zero.png").write_bytes(b"")
    header = struct.pack(">4sIIBBBBB", b"IHDR", 100_000, 100_000, 8, 2, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    (folder / "bomb.png").write_bytes(start + struct.pack(">I4sI", 0, b"IEND", zlib.crc32(b"IEND")))
    scene.save(folder / "moving.gif", save_all=True, append_images=[scene.rotate(180)])
    writer = cv2.VideoWriter(str(folder / "clip.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 5, (32, 32))
    for _ in range(3):
        writer.write(np.full((32, 32, 3), 211, np.uint8))
    writer.release()
    (folder / "cut.avi").write_bytes((folder / "clip.avi").read_bytes()[:-300])


@pytest.fixture(scope="session")
def write_odd_media(write_scene: Callable[..., Path]) -> Callable[[Path], None]:
    """See :func:`_write_odd_media`."""
    return lambda folder: _write_odd_media(folder, write_scene)


@pytest.fixture(scope="session")
def run_beam() -> Callable[..., Ran]:
    """Run ``beam COMMAND`` on an input; ``own_process`` shows what a user's terminal would.

    Questions that are always answered right are kept, so that rows come out of a few drawn scenes.
    """

    def run(
        data: object,
        output: Path,
        *extra: str,
        command: str = "run",
        pipeline: str = PIPELINE,
        own_process: bool = False,
        **process: Any,
    ) -> Ran:
        words = [command, pipeline, "--input", str(data), "--output", str(output)]
        words += ["--set", "difficulty.include_high=true", *extra]
        if own_process:
            environment = os.environ | {"HF_HUB_OFFLINE": "1"}
            given = [sys.executable, "-m", "groundtrace", *words]
            done = subprocess.run(given, capture_output=True, text=True, env=environment, check=False, **process)
            return Ran(done.returncode, done.stdout, done.stderr, output)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        return Ran(code, out.getvalue(), err.getvalue(), output)

    return run


@pytest.fixture(scope="session")
def run_short(run_beam: Callable[..., Ran]) -> Callable[..., Ran]:
    """The same with the recipe of :mod:`.short_recipe`: what all runs have in common needs no longer one."""
    return partial(run_beam, pipeline=str(Path(short_recipe.__file__)))


@dataclass
class SmallDisk:
    """A place where only ``left_bytes`` can be written until :meth:`free` is called."""

    folder: Path
    left_bytes: int
    mounted: bool
    freed: bool = False

    def free(self) -> None:
        self.freed = True
        (self.folder / "ballast").unlink(missing_ok=True)

    def fill(self, left_bytes: int) -> None:
        """Fill the disk up to the given rest."""
        self.left_bytes = left_bytes
        (self.folder / "ballast").unlink(missing_ok=True)
        if self.mounted:
            size = shutil.disk_usage(self.folder).free - left_bytes
            (self.folder / "ballast").write_bytes(bytes(size))

    def limits(self) -> None:
        """Run in the child before the command: without a disk of its own, a bound on every file's size."""
        if not self.mounted and not self.freed:
            least = 16  # what Python itself writes to try out a folder for temporary files
            resource.setrlimit(resource.RLIMIT_FSIZE, (max(self.left_bytes, least), resource.RLIM_INFINITY))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of 8 MB of its own where that may be mounted, else a bound on file sizes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and _mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder))
    yield SmallDisk(folder, 0, mounted)
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody can write, not even root."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    mounted = os.geteuid() == 0 and _mount("-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(folder))
    if not mounted:
        folder.chmod(0o555)
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    else:
        folder.chmod(0o755)


@pytest.fixture
def make_read_only() -> Iterator[Callable[[Path], None]]:
    """Let nobody write what is in a folder, not even root."""
    mounted: list[Path] = []

    def close(folder: Path) -> None:
        if os.geteuid() == 0 and _mount("--bind", str(folder), str(folder)):
            mounted.append(folder)
            _mount("-o", "remount,ro,bind", str(folder))
        for path in (folder, *folder.rglob("*")) if not mounted else ():
            path.chmod(path.stat().st_mode & ~0o222)

    yield close
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
