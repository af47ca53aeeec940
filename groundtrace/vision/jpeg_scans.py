"""Counts the scans of a JPEG file without decoding it.

A scan holds a part of the values of the pixels. A scan of a few bytes can make a decoder go through all pixels, so that
a small file with thousands of scans takes minutes.
"""

import re

import numpy as np

MAX_SCANS = 100
"""The maximum number of scans of a JPEG file, as in libtiff. Usual files have at most about 10."""
MAX_SEGMENTS = 20_000
"""The maximum number of segments of a JPEG file whose scans are counted. 256 MiB of metadata need about 4,000."""
_SCAN, _END = b"\xff\xda", b"\xff\xd9"
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")
"""The start of a segment, or the end of the image. Compressed values of pixels contain no such bytes."""


def has_many_scans(data: bytes) -> bool:
    """Return whether a JPEG file has more scans than :data:`MAX_SCANS`, or too many segments to count the scans.

    ``data`` holds the bytes of the file. Only the scans of the main image are counted. A preview in the metadata, and
    further images after the end of the main image, are ignored.
    """
    values = np.frombuffer(data, np.uint8)
    # bytes.count takes 25 times as long, because every 256th byte is 0xff
    if np.count_nonzero((values[:-1] == _SCAN[0]) & (values[1:] == _SCAN[1])) <= MAX_SCANS:
        return False
    scans = at = 0
    for _ in range(MAX_SEGMENTS):
        marker = _MARKER.search(data, at)
        if not marker or marker[0] == _END:
            return False
        scans += marker[0] == _SCAN
        if scans > MAX_SCANS:
            return True
        at = marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2], "big")  # the length of the segment
    return True
