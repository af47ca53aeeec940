"""The figures of a run, read back from what was written and from the metrics: the content of run.json's counts and
ledger.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
from apache_beam.metrics.metric import MetricResults

from rewards.agreement import agreement
from rewards.second_judge import UNSCORED
from schemas.run_summary import RoleLedger
from schemas.usage import Usage


def written_counts(folder: Path) -> tuple[int, int, dict[str, dict[str, int]]]:
    """Rows of sft and of rl, and of rejected by stage and reason, counted in the files themselves."""
    sft, rl = (
        sum(pq.read_metadata(file).num_rows for file in (folder / side).glob("*.parquet")) for side in ("sft", "rl")
    )
    reasons: Counter[tuple[str, str]] = Counter()
    for file in sorted((folder / "rejected").glob("*.parquet")):
        table = pq.read_table(file, columns=["stage", "reason"])
        reasons.update(zip(table["stage"].to_pylist(), table["reason"].to_pylist(), strict=True))
    rejected: dict[str, dict[str, int]] = {}
    for (stage, reason), rows in sorted(reasons.items()):
        rejected.setdefault(stage, {})[reason] = rows
    return sft, rl, rejected


def metric_counters(results: MetricResults) -> dict[tuple[str, str], int]:
    """All counters by (namespace, name), added up over the steps in which they occur."""
    totals: Counter[tuple[str, str]] = Counter()
    for found in results.query()["counters"]:
        value = found.committed if found.committed is not None else found.attempted
        totals[found.key.metric.namespace, found.key.metric.name] += value or 0
    return dict(totals)


def ledger(counters: Mapping[tuple[str, str], int]) -> dict[str, RoleLedger]:
    """What the calls took, per role and stage."""
    amounts: dict[str, dict[str, dict[str, float]]] = {}
    for (namespace, name), value in sorted(counters.items()):
        if namespace.startswith("ledger/"):
            _, role, stage = namespace.split("/", 2)
            usage = amounts.setdefault(role, {}).setdefault(stage, {})
            if name.endswith("_microusd"):
                usage[name.replace("_microusd", "_usd")] = value / 1_000_000
            else:
                usage[name] = value
    return {
        role: RoleLedger({stage: Usage.of(usage) for stage, usage in stages.items()})
        for role, stages in amounts.items()
    }


def agreements(counters: dict[tuple[str, str], int]) -> dict[str, dict[str, object]]:
    """How far two judges agreed, by scorer (:class:`rewards.agreement.Agreement`); empty where there was one judge."""
    pairs: dict[str, list[tuple[str | None, ...]]] = {}
    for (namespace, name), count in sorted(counters.items()):
        if namespace.startswith("agreement/"):
            labels = tuple(None if label == UNSCORED else label for label in name.split("/"))
            pairs.setdefault(namespace.removeprefix("agreement/"), []).extend([labels] * count)
    return {
        scorer: asdict(agreement([first for first, _ in found], [second for _, second in found]))
        for scorer, found in pairs.items()
    }


def unbalanced(read: int, sft: int, rl: int, rejected: dict[str, dict[str, int]]) -> str | None:
    """What the conservation law says against these counts, or None when every record is accounted for."""
    ends = sft + rl + sum(sum(reasons.values()) for reasons in rejected.values())
    if read == ends:
        return None
    return f"{read} records were read, but {ends} came out: sft {sft}, rl {rl}, rejected {ends - sft - rl}"
