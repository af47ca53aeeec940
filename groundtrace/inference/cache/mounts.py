"""Detects network file systems, on which SQLite's locks are not reliable."""

import os
import re
from pathlib import Path

_NETWORK = re.compile(r"nfs4?|cifs|smb3|smbfs|9p|lustre|ceph|glusterfs|beegfs|gpfs|afs|fuse\..+")


def on_network(folder: Path) -> bool:
    """Return whether ``folder`` is on a network file system. The folder does not have to exist yet. On systems without
    /proc/mounts the result is False.
    """
    try:
        mounts = Path("/proc/mounts").read_text("utf-8", "surrogateescape")
    except OSError:  # not Linux: the folder is assumed to be local
        return False
    return is_network(filesystem_of(mounts, os.path.realpath(folder)))


def filesystem_of(mounts: str, path: str) -> str:
    """Return the type of the file system that contains the absolute path ``path``, e.g. "ext4" or "nfs". ``mounts`` is
    the text of /proc/mounts. Returns "" if no mounted file system contains the path.
    """
    longest, kind = -1, ""
    for line in mounts.split("\n"):
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:  # the later of two mounts on one point hides the earlier one
            longest, kind = len(point), fields[2]
    return kind


def is_network(kind: str) -> bool:
    """Return whether ``kind``, the name of a file system type as in /proc/mounts, is a network file system. Examples
    are "nfs4" and "cifs".
    """
    return _NETWORK.fullmatch(kind) is not None
