"""Reads entries: the dicts in which a store's client describes objects, e.g. in the listing of a folder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stat:
    """Holds a store's metadata of an object, with the field names of ``os.stat_result``.

    Attributes:
        st_size: the size in bytes.
        st_mtime: the time of the last write, in seconds since 1970; 0 if the store does not give it.
        version: a text that changes when the object's bytes change; "" if the store does not give it.
    """

    st_size: int
    st_mtime: float
    version: str


def entries(listing: Callable[[], Iterable[Mapping[str, Any]]]) -> Iterable[Mapping[str, Any]]:
    """Call ``listing`` and return its entries; return an empty tuple if the folder does not exist.

    ``listing`` is a function that lists a folder. Some stores' libraries raise FileNotFoundError for a folder that does
    not exist or has no objects. This function catches this error.
    """
    try:
        return listing()
    except FileNotFoundError:
        return ()


def is_path(name: str) -> bool:
    """Return whether the name of an object can be used as a path.

    Slashes divide the name into segments. The result is False if any segment, also the first or the last, is empty,
    ``.`` or ``..``, as in ``a//b``, ``a/`` or ``../b``.
    """
    return not {"", ".", ".."} & set(name.split("/"))


def stat_of(info: Mapping[str, Any]) -> Stat:
    """Return the metadata of one object.

    ``info`` is the dict by which the store's client describes the object. The clients of S3 and of Google Cloud Storage
    use different keys in this dict; this function reads both kinds.
    """
    when = info.get("LastModified") or info.get("mtime")
    version = info.get("generation") or info.get("ETag") or info.get("etag") or ""
    stamp = getattr(when, "timestamp", None)
    return Stat(int(info["size"] or 0), stamp() if stamp else 0.0, str(version).strip('"'))
