"""Computes a digest of a model folder's weights, so that other weights at the same path are noticed.

To read all weights of a model with 8 billion parameters would take a minute. So only samples of a large file are read.
"""

import hashlib
from pathlib import Path

from groundtrace.schemas.safe_files import opened_regular

PATTERNS = ("*.safetensors", "*.bin")
"""The names of the files with weights, in a model folder."""
MAX_WHOLE_BYTES = 64 * 2**20
"""A file with at most this size is read whole."""
SAMPLES, SAMPLE_BYTES = 1024, 4096
"""The number and the size of the samples that are read of a larger file. They have equal distances from each other."""
DIGITS = 12


def weights_digest(folder: Path) -> str:
    """Return a digest of the weights in a model's folder; "" if the folder has no files with weights.

    The digest is made from the names, the sizes and the content of the files with weights. Of a file with more than
    :data:`MAX_WHOLE_BYTES` bytes, the content is :data:`SAMPLES` samples: the first is the start of the file, which
    holds the names and shapes of the weights. In a file of 5 GB, the samples are 5 MB apart, so nearly every matrix has
    one. A training that changes only small tensors of such a file, such as norms, may leave the digest as it is.

    Raises OSError if a file cannot be read, and UnsafeFile if it is a pipe or a device.
    """
    files = sorted({path for pattern in PATTERNS for path in folder.glob(pattern)})
    if not files:
        return ""
    digest = hashlib.sha256()
    for path in files:
        _add(digest, path)
    return digest.hexdigest()[:DIGITS]


def _add(digest: "hashlib._Hash", path: Path) -> None:
    """Add the name, the size and the content of a file, or samples of its content, to ``digest``."""
    with opened_regular(path) as stream:
        size = stream.seek(0, 2)
        digest.update(f"{path.name} {size}\n".encode())
        stream.seek(0)
        if size <= MAX_WHOLE_BYTES:
            digest.update(stream.read())
            return
        for number in range(SAMPLES):
            stream.seek((size - SAMPLE_BYTES) * number // (SAMPLES - 1))
            digest.update(stream.read(SAMPLE_BYTES))
