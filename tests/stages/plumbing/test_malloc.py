"""Memory that is free goes back to the system."""

import subprocess
import sys

import pytest

RELEASE = """
import gc, resource
from pathlib import Path
from groundtrace.stages.plumbing.spreading import release_memory

def rss_bytes():
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()

blocks = [bytearray(2000) for _ in range(30_000)]
kept = blocks[::100]
del blocks
gc.collect()
before = rss_bytes()
release_memory()
print(before - rss_bytes())

collected = []
gc.callbacks.append(lambda phase, info: collected.append(phase))
release_memory()
print(len(collected))
blocks = [bytearray(2000) for _ in range(30_000)]
release_memory()
print(len(collected))
"""


@pytest.mark.faults
def test_scattered_free_memory_goes_back_where_there_is_much_of_it() -> None:
    """In a process of its own: what other tests have freed would be used again here."""
    done = subprocess.run([sys.executable, "-c", RELEASE], capture_output=True, text=True, check=True)
    given_back, collected_at_once, collected_after_growth = map(int, done.stdout.split())
    assert given_back > 20_000_000
    assert collected_at_once == 0 < collected_after_growth
