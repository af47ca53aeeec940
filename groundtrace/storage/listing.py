"""Reads the dicts ("entries") in which a store's client describes objects, for example in the listing of a folder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stat:
    """Holds a store's metadata of an object.

    Attributes:
        st_size: the size in bytes.
        st_mtime: the time of the last write, in seconds since 1970; 0 if the store does not give it.
        version: a text that changes with the object's bytes; "" if the store does not give it.
    """

    st_size: int
    st_mtime: float
    version: str


def entries(listing: Callable[[], Iterable[Mapping[str, Any]]]) -> Iterable[Mapping[str, Any]]:
    """Return the entries of a listing; empty if the folder does not exist or has no objects.

    Some stores' libraries raise FileNotFoundError for such a folder. This function catches the error.
    """
    try:
        return listing()
    except FileNotFoundError:
        return ()


def is_path(name: str) -> bool:
    """Return whether the name of an object is a path: none of its segments is empty, ``.`` or ``..``."""
    return not {"", ".", ".."} & set(name.split("/"))


def stat_of(info: Mapping[str, Any]) -> Stat:
    """Return the metadata of the object that the entry ``info`` describes.

    The clients of S3 and GCS use different names for the fields of an entry.
    """
    when = info.get("LastModified") or info.get("mtime")
    version = info.get("generation") or info.get("ETag") or info.get("etag") or ""
    stamp = getattr(when, "timestamp", None)
    return Stat(int(info["size"] or 0), stamp() if stamp else 0.0, str(version).strip('"'))
