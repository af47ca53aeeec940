"""Which file systems are shared over a network, where SQLite's locks cannot be relied on."""

import re
from pathlib import Path

_NETWORK = re.compile(r"nfs4?|cifs|smb3|smbfs|9p|lustre|ceph|glusterfs|beegfs|gpfs|afs|fuse\..+")


def on_network(folder: Path) -> bool:
    """Whether a folder, which need not exist yet, lies on a network file system of this machine."""
    try:
        mounts = Path("/proc/mounts").read_text("utf-8", "surrogateescape")
    except OSError:  # not Linux: taken for local
        return False
    return is_network(filesystem_of(mounts, str(folder.resolve())))


def filesystem_of(mounts: str, path: str) -> str:
    """The type of the file system that holds an absolute ``path``, by the text of /proc/mounts; "" if none does."""
    longest, kind = -1, ""
    for line in mounts.split("\n"):
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # of two mounts on one point the later covers the earlier
            longest, kind = len(point), fields[2]
    return kind


def is_network(kind: str) -> bool:
    """Whether a file system of this type is shared over a network, where SQLite's locks cannot be relied on."""
    return _NETWORK.fullmatch(kind) is not None
