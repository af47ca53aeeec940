"""Prints the table of docs/scaling.md: what a run of N questions takes, from measured constants and stated assumptions.

    python benchmarks/scaling_table.py [--questions 1000000 100000000] [--days 10]

``MEASURED`` are figures of RESULTS.md and of runs named in docs/scaling.md; ``ASSUMED`` are to be replaced by your own,
each with ``--set name=value``.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from groundtrace.pipelines.running.plan.forecast import CALL_S, RECORD_S

MEASURED = {
    "band": 0.38,  # the share of NLVR's questions within the difficulty band
    "record_s": RECORD_S[1],
    "call_s": CALL_S[1],
    "ends_bytes": 354,  # bench_driver.py
    "driver_s_per_million": 31.7,  # bench_driver.py
    "rejected_bytes": 460,  # a rejected row of the sample
    "cache_bytes_per_reply": 600,  # besides the reply's own text, which the cache holds twice
}
ASSUMED = {
    "k": 4,  # attempts per question
    "traces": 8,
    "sft_ratio": 0.7,
    "yield": 0.031,  # SFT rows per question, as Argos reports
    "entities": 3,
    "image_bytes": 300_000,
    "image_tokens": 1200,
    "text_tokens": 300,
    "attempt_tokens": 150,
    "trace_tokens": 500,
    "judge_tokens": 150,
    "short_tokens": 60,
    "bytes_per_token": 4,
    "usd_per_million_in": 0.10,
    "usd_per_million_out": 0.40,
    "server_tokens_per_s": 2500,  # output tokens of one server
    "latency_s": 5.0,
}


def needs(questions: float, days: float, given: Mapping[str, float]) -> dict[str, float]:
    """Return the resources that a run of ``grounded_cot`` needs; see docs/scaling.md for the formulas."""
    g = given
    traced = g["band"] * g["sft_ratio"]
    requests = 1 + traced * (2 + 3 * g["entities"] + g["traces"])
    replies = g["k"] + traced * (1 + 3 * g["entities"] + 2 * g["traces"])
    in_tokens = requests * (g["image_tokens"] + g["text_tokens"]) + traced * g["image_tokens"]
    teacher_tokens = g["traces"] * (g["trace_tokens"] + g["judge_tokens"]) + (1 + 3 * g["entities"]) * g["short_tokens"]
    out_tokens = g["k"] * g["attempt_tokens"] + traced * teacher_tokens
    per_second = questions * requests / (86_400 * days)
    rl_rows = g["band"] * (1 - g["sft_ratio"])
    cached = replies * g["cache_bytes_per_reply"] + 2 * out_tokens * g["bytes_per_token"]
    return {
        "SFT rows": questions * g["yield"],
        "RL rows": questions * rl_rows,
        "requests": questions * requests,
        "tokens in": questions * in_tokens,
        "tokens out": questions * out_tokens,
        "dollars at these prices": questions
        * (in_tokens * g["usd_per_million_in"] + out_tokens * g["usd_per_million_out"])
        / 1e6,
        "server hours": questions * out_tokens / g["server_tokens_per_s"] / 3600,
        "servers": questions * out_tokens / g["server_tokens_per_s"] / 86_400 / days,
        "requests a second": per_second,
        "requests at once": per_second * g["latency_s"],
        "worker core hours": questions * (g["record_s"] + requests * g["call_s"]) / 3600,
        "worker cores": questions * (g["record_s"] + requests * g["call_s"]) / 86_400 / days,
        "shards, GB": questions * ((2 * g["yield"] + rl_rows) * g["image_bytes"] + g["rejected_bytes"]) / 1e9,
        "reply cache, GB": questions * cached / 1e9,
        "tables of ends, GB": questions * g["ends_bytes"] / 1e9,
        "driver's sums, minutes": questions / 1e6 * g["driver_s_per_million"] / 60,
    }


def shown(value: float) -> str:
    """Return the value with three significant digits; from 100 on, as an integer."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Print the table."""
    given = {**MEASURED, **ASSUMED}
    named = "; ".join(f"{name} {value:g}" for name, value in given.items())
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"measured, then assumed: {named}")
    parser.add_argument("--questions", type=float, nargs="+", default=[1e6, 1e8])
    parser.add_argument("--days", type=float, default=10)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    for each in arguments.set:
        name, _, value = each.partition("=")
        if name not in given:
            parser.error(f"there is no {name!r}: {', '.join(given)}")
        given[name] = float(value)
    columns = [needs(questions, arguments.days, given) for questions in arguments.questions]
    print(f"| in {arguments.days:g} days | " + " | ".join(f"{q:,.0f} questions" for q in arguments.questions) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(shown(column[name]) for column in columns) + " |")


if __name__ == "__main__":
    main()
