"""Measures the cost of isolation: the sandbox, a new `python -c` for each call, and `exec` in this process.

    python benchmarks/bench_sandbox.py [--calls 60] [--trajectories 40] [--many 2000]

A call is a crop of the image and a print. Latency: one trajectory, the calls one after the other. Starts: from the pool
that is kept warm, and cold. Rate: trajectories of three calls, 1 to 32 at once, with the CPU seconds that the whole
machine uses for each: keep it quiet. `--many`: so many trajectories, of which one in twenty is killed; then processes,
mounts, open files, control groups and memory of this process are compared with those before. Exit code 1 if anything is
left.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from PIL import Image

from groundtrace.sandbox import Sandbox, SandboxSettings
from groundtrace.sandbox.groups import parents

CALL = "crop = input_image.crop((10, 10, 90, 90)); print(crop.size, crop.getpixel((3, 3)))"
CALLS = (CALL, "import numpy as np; levels = np.asarray(crop); print(levels.mean())", "display(crop)")
AT_ONCE = (1, 2, 4, 8, 16, 32)
LOAD = "from PIL import Image; import numpy; input_image = Image.open(__import__('sys').argv[1]).convert('RGB')\n"


def picture() -> bytes:
    """Return a picture of 640 × 480 pixels, as JPEG."""
    file = io.BytesIO()
    Image.effect_noise((640, 480), 40).convert("RGB").save(file, "JPEG", quality=90)
    return file.getvalue()


def median_ms(act: Callable[[], object], turns: int) -> float:
    """Return the median time of an action, in milliseconds."""
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        act()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def latencies(image: bytes, turns: int) -> dict[str, float]:
    """Return the time of a call in the sandbox, in a new Python process, and in this process."""
    path = Path("/tmp/bench_sandbox.jpg")
    path.write_bytes(image)
    scope: dict[str, object] = {"input_image": Image.open(path).convert("RGB"), "print": lambda *_: None}
    with Sandbox(SandboxSettings(warm=1)) as sandbox, sandbox.open([image]) as session:
        session.run(CALL)
        inside = median_ms(lambda: session.run(CALL), turns)
    bare = [sys.executable, "-c", LOAD + CALL, str(path)]
    found = {
        "sandbox": inside,
        "python -c": median_ms(lambda: subprocess.run(bare, capture_output=True, check=True), max(3, turns // 6)),
        "exec": median_ms(lambda: exec(CALL, scope), turns),
    }
    path.unlink()
    return found


def starts(image: bytes, turns: int) -> dict[str, float]:
    """Return the time to open a trajectory, from the warm pool and cold."""
    found = {}
    for name, warm in (("warm", 1), ("cold", 0)):
        times = []
        with Sandbox(SandboxSettings(warm=warm, sessions=1)) as sandbox:
            for _ in range(turns):
                time.sleep(0.6 if warm else 0)
                began = time.perf_counter()
                session = sandbox.open([image])
                times.append(1000 * (time.perf_counter() - began))
                session.close()
        found[name] = statistics.median(times)
    return found


def cpu_s() -> float:
    """Return the CPU seconds of the whole machine; the kernel does not add those of a sandbox's processes to this
    process.
    """
    used = psutil.cpu_times()
    return used.user + used.nice + used.system


def trajectory(sandbox: Sandbox, image: bytes, kill: bool = False) -> None:
    """Run a trajectory of three calls, or one that is killed."""
    with sandbox.open([image]) as session:
        for code in ("import os; os._exit(1)",) if kill else CALLS:
            assert session.run(code).is_good != kill


def rate(image: bytes, at_once: int, count: int) -> tuple[float, float]:
    """Return the number of trajectories per second, and the CPU seconds of each."""
    before, began = cpu_s(), time.perf_counter()
    with Sandbox(SandboxSettings(sessions=at_once, warm=2)) as sandbox, ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda _: trajectory(sandbox, image), range(count)))
    return count / (time.perf_counter() - began), (cpu_s() - before) / count


def state() -> dict[str, object]:
    """Return the numbers that must not grow: processes, mounts, open files and control groups of this process."""
    mine = psutil.Process()
    return {
        "processes": len(mine.children(recursive=True)),
        "mounts": len(Path("/proc/self/mountinfo").read_text("utf-8").splitlines()),
        "open files": mine.num_fds(),
        "groups": sum(1 for parent in parents().values() for _ in parent.glob(f"groundtrace-sandbox-{os.getpid()}-*")),
    }


def left_over(image: bytes, count: int) -> tuple[bool, float]:
    """Return whether the state after ``count`` trajectories is as before, and the growth of this process in MB."""
    with Sandbox(SandboxSettings(sessions=8)) as sandbox, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: trajectory(sandbox, image, number % 20 == 7), range(40)))
    before, memory = state(), psutil.Process().memory_info().rss
    with Sandbox(SandboxSettings(sessions=8)) as sandbox, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: trajectory(sandbox, image, number % 20 == 7), range(count)))
    after = state()
    if before != after:
        print(f"left behind: {before} before, {after} after", file=sys.stderr)
    return before == after, (psutil.Process().memory_info().rss - memory) / 1e6


def main() -> int:
    """Measure, print the tables and the line for programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--trajectories", type=int, default=40)
    parser.add_argument("--many", type=int, default=200)
    chosen = parser.parse_args()
    image = picture()
    call, start = latencies(image, chosen.calls), starts(image, 10)
    print("a call, median ms     " + "   ".join(f"{name} {ms:.2f}" for name, ms in call.items()))
    print("a start, median ms    " + "   ".join(f"{name} {ms:.1f}" for name, ms in start.items()))
    rates = {at_once: rate(image, at_once, chosen.trajectories) for at_once in AT_ONCE}
    for at_once, (found, used) in rates.items():
        print(f"{at_once:>3} at once   {found:6.1f} trajectories/s   {used:.3f} CPU s each")
    is_clean, grown_mb = left_over(image, chosen.many)
    print(
        f"after {chosen.many} trajectories, 5 % of them killed: {'all as before' if is_clean else 'NOT as before'}, ",
        end="",
    )
    print(f"memory of this process +{grown_mb:.0f} MB")
    best = max(found for found, _ in rates.values())
    figures = {
        "call_ms": round(call["sandbox"], 2),
        "warm_start_ms": round(start["warm"], 1),
        "best_per_s": round(best, 1),
    }
    ratio = call["sandbox"] / call["python -c"]
    print(
        json.dumps(
            {
                "name": "sandbox",
                "ratio": round(ratio, 3),
                "unit": "of a call by python -c",
                **figures,
                "clean": is_clean,
            }
        )
    )
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
