"""Measures the time to open a picture in S3: this repository's client against Beam's, on a local S3.

    python benchmarks/bench_storage.py [--pictures 60] [--size-kb 65]

moto serves S3 on this machine in a separate process. Both sides open the same pictures one after the other; the first
is not counted. ``ratio`` is Beam's median time over ours; it is missing without boto3, which Beam's S3 client requires.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from groundtrace.storage.places import RemotePath, StorageSettings, place

SERVER = """
from moto.server import ThreadedMotoServer
import logging, sys, time
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def bucket() -> Iterator[RemotePath]:
    """Run a local S3 server; yields a bucket."""
    os.environ |= KEYS
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    try:
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        urllib.request.urlopen(urllib.request.Request(f"{url}/pictures", method="PUT"), timeout=10).read()
        made = place("s3://pictures", StorageSettings(endpoint_url=url))
        assert isinstance(made, RemotePath)
        yield made
    finally:
        process.stdin.close()
        process.wait()


def beams_open(endpoint_url: str) -> Callable[[str], bytes]:
    """Return a function that reads an object with Beam's client."""
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    named = {
        "endpoint_url": endpoint_url,
        "access_key_id": "test",
        "secret_access_key": "test",
        "region_name": "us-east-1",
    }
    FileSystems.set_options(PipelineOptions([f"--s3_{name}={value}" for name, value in named.items()]))

    def opened(url: str) -> bytes:
        with FileSystems.open(url, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
            return stream.read()

    return opened


def timed(read: Callable[[str], bytes], url: str, size: int) -> tuple[float, float]:
    """Return the wall-clock seconds and CPU seconds of reading one picture."""
    start_s, cpu_s = time.perf_counter(), time.process_time()
    assert len(read(url)) == size
    return time.perf_counter() - start_s, time.process_time() - cpu_s


def main() -> None:
    """Time the sides, print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pictures", type=int, default=60)
    parser.add_argument("--size-kb", type=int, default=65)
    arguments = parser.parse_args()
    size = arguments.size_kb * 1000
    with bucket() as root:
        data = os.urandom(size)
        paths = [root / f"{number}.jpg" for number in range(arguments.pictures + 1)]
        for path in paths:
            path.write_bytes(data)
        sides: dict[str, Callable[[str], bytes]] = {"ours": lambda url: place(url, root.storage).read_bytes()}  # type: ignore[union-attr]
        if importlib.util.find_spec("boto3"):
            sides["Beam"] = beams_open(root.storage.endpoint_url)
        found = {name: [timed(read, str(path), size) for path in paths][1:] for name, read in sides.items()}
    print(f"{'client':<8}{'ms a picture':>14}{'CPU ms':>10}")
    medians = {}
    for name, times in found.items():
        medians[name], cpu_s = (statistics.median(each) for each in zip(*times, strict=True))
        print(f"{name:<8}{1000 * medians[name]:>14.1f}{1000 * cpu_s:>10.1f}")
    line = {"name": "storage", "unit": "of Beam's time to open a picture, over ours"}
    line |= {"ratio": round(medians["Beam"] / medians["ours"], 1)} if "Beam" in medians else {}
    print(json.dumps(line | {f"{name}_ms": round(1000 * each, 2) for name, each in medians.items()}))


if __name__ == "__main__":
    main()
