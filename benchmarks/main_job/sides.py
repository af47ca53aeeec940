"""Runs a bare side: the same calls with aiohttp alone, a loop that decodes and hashes each image, or only the imports.

python benchmarks/main_job/sides.py bare|loop|imports URL DATA ATTEMPTS SLOTS
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def bare(url: str, data: Path, attempts: int, slots: int) -> None:
    """Make the calls of the job with aiohttp alone, ``slots`` at once."""
    import asyncio
    import base64

    import aiohttp

    lines = (data / "records.jsonl").read_text("utf-8").splitlines()
    work = iter([json.loads(line) for line in lines for _ in range(attempts)])

    def image(name: str) -> dict[str, Any]:
        content = base64.b64encode((data / name).read_bytes()).decode()
        return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{content}"}}

    async def send_all() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def worker() -> None:
                for record in work:
                    content = [*map(image, record["media"]), {"type": "text", "text": record["question"]}]
                    body = {"model": "m", "n": 1, "messages": [{"role": "user", "content": content}]}
                    async with session.post(f"{url}/chat/completions", json=body) as response:
                        assert (await response.json())["choices"][0]["message"]["content"]

            await asyncio.gather(*(worker() for _ in range(slots)))

    asyncio.run(send_all())


def loop(_: str, data: Path, *__: int) -> None:
    """Decode and hash each image once."""
    import hashlib

    import cv2
    import numpy as np

    for line in (data / "records.jsonl").read_text("utf-8").splitlines():
        content = (data / json.loads(line)["media"][0]).read_bytes()
        hashlib.sha256(content).hexdigest()
        assert cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR) is not None


def imports(*_: object) -> None:
    """Import the libraries of a run, and none of our own modules."""
    import aiohttp  # noqa: F401
    import apache_beam.runners.portability.fn_api_runner  # noqa: F401
    import cv2  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pydantic  # noqa: F401


SIDES: dict[str, Callable[[str, Path, int, int], None]] = {"bare": bare, "loop": loop, "imports": imports}

if __name__ == "__main__":
    name, url, data, attempts, slots = sys.argv[1:]
    SIDES[name](url, Path(data), int(attempts), int(slots))
