"""Files that are sent to a server with a prompt."""

from pathlib import Path

import pytest

from groundtrace.grading.messages import MediaPart
from groundtrace.inference.endpoints.media_parts import media_bytes
from groundtrace.vision.decode import UndecodableMedia
from groundtrace.vision.media import MediaStore


@pytest.mark.parametrize(("kind", "limit"), [("image", 256 * 2**20), ("video", 2 * 2**30)])
def test_a_file_that_is_too_large_is_not_read(kind: str, limit: int, tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as stream:
        stream.truncate(2**40)  # sparse: it takes no place on the disk
    store = MediaStore(str(tmp_path), str(tmp_path))
    with pytest.raises(UndecodableMedia, match=f"too_large: the file has 1099511627776 bytes, the limit is {limit}"):
        media_bytes(store, MediaPart("input:a", "", kind))
