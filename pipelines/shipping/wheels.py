"""Writes wheels. The same content gives the same bytes and the same name, so that a wheel that was uploaded for an
earlier job can be found again.

A wheel of pure Python is a zip file. It holds the files of a package and three files that describe the package:
METADATA, WHEEL and RECORD (PEP 427). No build backend, such as setuptools, is used. A backend would have to be
downloaded for each run, would run code in a user's folder, and cannot build a wheel from an installed package.
"""

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip: the files' own dates would change its bytes
DIGEST_CHARS = 12


def write_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, bytes], requires: Sequence[str] = ()
) -> Path:
    """Write a wheel of pure Python into a folder, and return the wheel's path.

    Args:
        folder: An existing folder.
        name: The distribution's name, in the form of file names (lower case, ``_``).
        version: The distribution's version, such as ``1.2``. A digest of the content is appended to it, as in
            ``1.2+0123456789ab``. So this wheel is installed even on a worker that has the same version with another
            content.
        files: The content of each file, by its path in the wheel.
        requires: The required packages, as values of ``Requires-Dist``, such as ``numpy==2.1``.
    """
    lines = "".join(f"Requires-Dist: {each}\n" for each in requires)
    version = f"{version}+{digest_of({**files, 'METADATA': lines.encode()})}"
    about = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}"
    kind = "Wheel-Version: 1.0\nGenerator: groundtrace\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    whole = {**files, f"{about}/METADATA": metadata.encode(), f"{about}/WHEEL": kind.encode()}
    record = [f"{path},sha256={_record_digest(content)},{len(content)}\n" for path, content in sorted(whole.items())]
    whole[f"{about}/RECORD"] = "".join([*record, f"{about}/RECORD,,\n"]).encode()
    written = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in sorted(whole.items()):
            archive.writestr(_entry(path), content)
    return written


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return a short digest of files: the first 12 hex digits of a SHA-256 over their names and contents.

    ``files`` maps the name of each file to its content.
    """
    sums = hashlib.sha256()
    for path, content in sorted(files.items()):
        sums.update(f"{path}\0{len(content)}\0".encode())
        sums.update(content)
    return sums.hexdigest()[:DIGEST_CHARS]


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o100644 << 16
    return entry


def _record_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
