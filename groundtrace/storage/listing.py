"""Reads the entries by which a store's client describes objects, such as in a listing."""

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
    """Return the entries of a listing, which are empty if there is nothing to list.

    In that case the libraries of some stores raise FileNotFoundError, which is caught here.
    """
    try:
        return listing()
    except FileNotFoundError:
        return ()


def is_path(name: str) -> bool:
    """Whether the name of an object is a path: no segment of it is empty, ``.`` or ``..``."""
    return not {"", ".", ".."} & set(name.split("/"))


def stat_of(info: Mapping[str, Any]) -> Stat:
    """Return the metadata in a client's entry of an object. S3 and GCS name the fields of an entry differently."""
    when = info.get("LastModified") or info.get("mtime")
    version = info.get("generation") or info.get("ETag") or info.get("etag") or ""
    stamp = getattr(when, "timestamp", None)
    return Stat(int(info["size"] or 0), stamp() if stamp else 0.0, str(version).strip('"'))
