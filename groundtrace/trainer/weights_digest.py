"""Computes digests of a model folder's files, so that other weights or another tokenizer at the same path are noticed.

To read all weights of a model with 8 billion parameters would take a minute. So only samples of a large file are read.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from groundtrace.schemas.safe_files import opened_regular

PATTERNS = ("*.safetensors", "*.bin")
"""The names of the files with weights, in a model folder."""
SETTINGS_PATTERNS = ("*.json", "*.jinja", "*.model", "*.tiktoken", "merges.txt", "vocab.txt", "*templates/*.jinja")
"""The names of the other files that loading a model reads: configs, tokenizer, chat templates and processor."""
OF_TRAININGS = {
    *("training_args.bin", "optimizer.bin", "scheduler.bin", "trainer_state.json"),
    *("all_results.json", "train_results.json", "eval_results.json"),
}
"""The names of files that trainings leave in a model folder, and that loading the model does not read."""
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
    return _digest(_files(folder, PATTERNS))


def settings_digests(folder: Path) -> list[str]:
    """Return the files of a model's folder that loading the model reads besides the weights, each as ``NAME DIGEST``.

    These are the configs of the model and of the processor, the tokenizer and the chat templates. The digest is made in
    the same way as by :func:`weights_digest`, and the same errors are raised.
    """
    return [f"{path.relative_to(folder).as_posix()} {_digest([path])}" for path in _files(folder, SETTINGS_PATTERNS)]


def _files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files in ``folder`` that match a pattern, sorted, without folders and without :data:`OF_TRAININGS`."""
    found = {path for pattern in patterns for path in folder.glob(pattern)}
    return sorted(path for path in found if path.name not in OF_TRAININGS and not path.is_dir())


def _digest(files: Sequence[Path]) -> str:
    """Return a digest of the names, the sizes and the content of files; "" if there are none."""
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
