"""Reads the entries in which the clients of stores list objects."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stat:
    """A store's metadata of an object: its size, when it was written, and a version that changes with its bytes."""

    st_size: int
    st_mtime: float
    version: str


def entries(listing: Callable[[], Iterable[Mapping[str, Any]]]) -> Iterable[Mapping[str, Any]]:
    """Return the entries of a listing; none if there is nothing to list, for which some libraries raise an error."""
    try:
        return listing()
    except FileNotFoundError:
        return ()


def is_path(name: str) -> bool:
    """Whether the name of an object is a path: no segment of it is empty, ``.`` or ``..``."""
    return not {"", ".", ".."} & set(name.split("/"))


def stat_of(info: Mapping[str, Any]) -> Stat:
    """Return the metadata in a client's entry of an object; S3 and GCS name the fields differently."""
    when = info.get("LastModified") or info.get("mtime")
    version = info.get("generation") or info.get("ETag") or info.get("etag") or ""
    stamp = getattr(when, "timestamp", None)
    return Stat(int(info["size"] or 0), stamp() if stamp else 0.0, str(version).strip('"'))
