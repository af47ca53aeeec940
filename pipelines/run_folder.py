"""The run folder: who may write it, what it belongs to, and how new outputs replace old ones in one step.

RUN/input.json   which input the folder belongs to      RUN/.staging/    outputs being written
RUN/.lock        held by the process that writes        RUN/cache/, media/, sft/, rl/, rejected/, run.json, …
"""

import contextlib
import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STAGED = ("sft", "rl", "rejected", "rubrics.json", "config.toml", "README.md", "report.html", "run.json")


class RunFolderError(Exception):
    """The folder cannot be used for this run; the message says why and what to do."""


@dataclass(frozen=True)
class RunFolder:
    """The layout of one run's folder."""

    root: Path

    @property
    def staging(self) -> Path:
        """Where outputs are written before they replace the old ones."""
        return self.root / ".staging"

    @property
    def cache_path(self) -> Path:
        """The reply cache of this run."""
        return self.root / "cache" / "replies.sqlite"

    def prepare(self, input_name: str, fingerprint: str, resume: bool) -> None:
        """Make the folder, or check that it belongs to this input, and clear what an interrupted run left.

        ``resume`` False makes the folder over to this input: outputs of the other one are removed, cached replies stay
        (they are found by content). Raises :class:`RunFolderError`.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._claim(input_name, fingerprint, resume)
            shutil.rmtree(self.staging, ignore_errors=True)
            self.staging.mkdir()
        except OSError as error:
            raise RunFolderError(f"cannot write {self.root}: {error.strerror or error}") from error

    def _claim(self, input_name: str, fingerprint: str, resume: bool) -> None:
        marker = self.root / "input.json"
        if marker.exists():
            known = json.loads(marker.read_text("utf-8"))
            if known["fingerprint"] != fingerprint:
                if resume:
                    raise RunFolderError(
                        f"{self.root} belongs to the input {known['input']} ({known['fingerprint'][:12]}): "
                        f"choose another --output, or pass --resume never to replace its outputs"
                    )
                self._remove_outputs()
        elif any(entry.name != ".lock" for entry in self.root.iterdir()):
            raise RunFolderError(f"{self.root} is not empty and not a run folder: choose another --output")
        _write_atomically(marker, json.dumps({"input": input_name, "fingerprint": fingerprint}, indent=1))

    def _remove_outputs(self) -> None:
        for name in STAGED:
            path = self.root / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one writing process. Raises :class:`RunFolderError` when another holds it."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            handle = (self.root / ".lock").open("w")
        except OSError as error:
            raise RunFolderError(f"cannot write {self.root}: {error.strerror or error}") from error
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RunFolderError(f"another process is writing {self.root}") from error
            yield

    def commit(self) -> None:
        """Put the staged outputs in place of the old ones; ``run.json`` last, as the sign of a whole run."""
        replaced = self.staging / "replaced"
        replaced.mkdir()
        for name in reversed(STAGED):
            if (self.root / name).exists():
                (self.root / name).rename(replaced / name)
        for name in STAGED:
            if (self.staging / name).exists():
                (self.staging / name).rename(self.root / name)
        shutil.rmtree(self.staging)


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".writing")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def lines_fingerprint(lines: Iterator[bytes]) -> str:
    """A digest of a file's lines that does not depend on their order."""
    total = 0
    for line in lines:
        total += int.from_bytes(hashlib.sha256(line.rstrip(b"\r\n")).digest(), "big")
    return f"{total % 2**256:064x}"
