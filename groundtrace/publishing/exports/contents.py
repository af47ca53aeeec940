"""Lists the content of an export: its files with their SHA-256, and a digest of the names of its images."""

import hashlib
from pathlib import Path

from groundtrace.publishing.exports.writers import IMAGES

Told = dict[str, int | str]


def contents_of(folder: Path) -> tuple[dict[str, Told], Told | None]:
    """Return what an export folder contains: its files, and a summary of its images.

    The first result maps each file's name to its size in bytes and its SHA-256. The second result is None if the folder
    has no images. Otherwise it holds the number of images, their total bytes, and the SHA-256 of their sorted names.
    Single images are not listed, because an export may have millions of them; the name of an image is the SHA-256 of
    its bytes.
    """
    files: dict[str, Told] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        with path.open("rb") as stream:
            files[path.name] = {
                "bytes": path.stat().st_size,
                "sha256": hashlib.file_digest(stream, "sha256").hexdigest(),
            }
    return files, _images_of(folder / IMAGES)


def _images_of(folder: Path) -> Told | None:
    """Return the summary of the images in a folder; None if the folder does not exist."""
    if not folder.is_dir():
        return None
    digest, count, size = hashlib.sha256(), 0, 0
    for group in sorted(folder.iterdir()):
        for path in sorted(group.iterdir()):
            digest.update(f"{path.name}\n".encode())
            count, size = count + 1, size + path.stat().st_size
    return {"count": count, "bytes": size, "sha256_of_names": digest.hexdigest()}
