"""Which file systems count as shared over a network, told from the text of /proc/mounts."""

import pytest

from groundtrace.inference.cache.mounts import filesystem_of, is_network

MOUNTS = r"""
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/vdb /home/ada/scratch xfs rw 0 0
//nas/data /mnt/my\040data cifs rw 0 0
gcsfuse /mnt/bucket fuse.gcsfuse rw 0 0
/dev/sdc1 /mnt/stick fuseblk rw 0 0
tmpfs /mnt/over tmpfs rw 0 0
host /mnt/over 9p rw 0 0
torn line
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/work/cache", "ext4", False),
        ("/home/ada/cache", "nfs4", True),
        ("/home", "nfs4", True),
        ("/homework", "ext4", False),
        ("/home/ada/scratch/cache", "xfs", False),
        ("/mnt/my data/cache", "cifs", True),
        ("/mnt/bucket/run", "fuse.gcsfuse", True),
        ("/mnt/stick/run", "fuseblk", False),
        ("/mnt/over/run", "9p", True),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str, network: bool) -> None:
    assert filesystem_of(MOUNTS, path) == kind
    assert is_network(kind) is network


def test_no_mounts() -> None:
    assert filesystem_of("", "/a") == ""
    assert not is_network("")
