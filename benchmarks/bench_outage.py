"""Measures what a server outage costs a run: lost rows, and seconds beyond the length of the outage.

    python benchmarks/bench_outage.py [--records 2000] [--outage-s 30]

``beam run`` over images with questions; a local server in a separate process plays every role. There are three runs,
each with its own cache: without an outage; with a server that, after a third of the requests, drops all connections and
refuses new ones for ``--outage-s`` seconds; and the same with ``outage_timeout_s = 0``, which does not wait. ``ratio``
is the number of rows of the second run over that of the first. Exit code 1 unless both have the same shards.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench_kill import CONFIG, ROLES, KillBench, write_input
from model_access import serving

WINDOW, RATE, SAMPLES = 32, 640.0, 16
WHOLE, AWAY, NOT_WAITED = "whole", "away", "not waited for"
SIDES = (WHOLE, AWAY, NOT_WAITED)


def run(side: str, folder: Path, server: Sequence[str]) -> dict[str, Any]:
    """Run the pipeline once with its own server; returns rows, digests of shards, seconds and requests."""
    with serving("--script", "--slots", str(WINDOW), "--latency-s", str(WINDOW / RATE), *server) as served:
        bench, name = KillBench(folder, served), side.replace(" ", "-")
        roles = "\n".join(f'{role} = "server"' for role in ROLES)
        config = CONFIG.format(url=served.base_url, window=WINDOW, roles=roles, samples=SAMPLES)
        if side == NOT_WAITED:
            config = "max_failed = 1.0\n" + config.replace("[roles]", "outage_timeout_s = 0\n\n[roles]")
        (folder / "config.toml").write_text(config, "utf-8")
        wall_s = bench.finish(name)
        rows, digests = bench.written(name)
        return {"rows": rows, "digests": digests, "wall_s": wall_s, "requests": served.ask("figures")["requests"]}


def main() -> None:
    """Run the sides, print the table and the JSON line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--outage-s", type=float, default=30.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        write_input(folder / "input", arguments.records)
        whole = run(WHOLE, folder, ())
        outage = ("--outage", str(whole["requests"] // 3), str(arguments.outage_s))
        ran = {WHOLE: whole} | {side: run(side, folder, outage) for side in SIDES[1:]}
    print(f"{'run':<16}{'requests':>10}{'sft':>8}{'rl':>8}{'rejected':>10}{'seconds':>10}")
    for side, seen in ran.items():
        rows = seen["rows"]
        print(
            f"{side:<16}{seen['requests']:>10}{rows['sft']:>8}{rows['rl']:>8}{rows['rejected']:>10}{seen['wall_s']:>10.1f}"
        )
    kept = {side: seen["rows"]["sft"] + seen["rows"]["rl"] for side, seen in ran.items()}
    same = ran[AWAY]["digests"] == whole["digests"]
    line = {"name": "outage", "ratio": round(kept[AWAY] / kept[WHOLE], 4), "unit": "of the rows of an undisturbed run"}
    line |= {"not_waited_for": round(kept[NOT_WAITED] / kept[WHOLE], 4), "same_shards": same}
    line |= {"seconds_beyond_the_outage": round(ran[AWAY]["wall_s"] - whole["wall_s"] - arguments.outage_s, 1)}
    print(json.dumps(line))
    sys.exit(not same)


if __name__ == "__main__":
    main()
