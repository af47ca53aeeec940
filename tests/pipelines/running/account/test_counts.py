"""The figures of a run: what its ends tell and its requests' notes say, however often a runner did its work."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from groundtrace.inference.flow.notes import Paid
from groundtrace.pipelines.running.account.counts import RunCounts, agreements, figures_of, ledger
from groundtrace.pipelines.running.execute.job_folder import read_job
from groundtrace.schemas.records import Call
from groundtrace.schemas.run_summary import Counts, RoleLedger
from groundtrace.schemas.usage import Usage
from groundtrace.stages.plumbing.ends import SideCalls
from tests.pipelines.running.jobs import EndRow, end, rejection, write_job, write_set


def key_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def call(stage: str, *keys: int, role: str = "judge", usd: float = 0.0, repairs: int = 0) -> Call:
    named = tuple(map(key_of, keys))
    return Call(role, "p.v1", "", "m", named, Usage(calls=1, repairs=repairs), stage, (usd,) * len(keys) if usd else ())


def figures(
    folder: Path, read: list[tuple[int, str]], side: tuple[SideCalls, ...] = (), **ends: list[EndRow]
) -> RunCounts:
    return figures_of(read_job(write_job(folder, read, ends, side)), frozenset({"sample"}))


def test_the_funnel(tmp_path: Path) -> None:
    found = figures(
        tmp_path,
        [(1, "a"), (2, "b"), (3, "c"), (4, "d")],
        sft=[end("a", ["ingest", "verify"])],
        rl=[end("b", ["ingest"])],
        rejected=[rejection("c", "verify", "wrong_answer", ["ingest"]), rejection("d", "ingest", "bad_json")],
    )
    assert found.unbalanced == ""
    assert found.counts == Counts(4, 1, 1, {"ingest": {"bad_json": 1}, "verify": {"wrong_answer": 1}})
    assert {name: (found.entered(name), found.passed(name)) for name in ("ingest", "verify", "other")} == {
        "ingest": (4, 3),
        "verify": (2, 1),
        "other": (0, 0),
    }
    assert not found.refused


def test_no_records(tmp_path: Path) -> None:
    found = figures(tmp_path, [])
    assert (found.counts, found.unbalanced, found.asked) == (Counts(0, 0, 0, {}), "", {})
    assert found.forecast["records"] == 0


A, B = (1, "a"), (2, "b")


@pytest.mark.parametrize(
    ("read", "ends", "said"),
    [
        ([A, B], ["a", "b"], ""),
        ([A, A, B], ["a", "b"], ""),  # a runner read twice
        ([(1, "a"), (2, "a")], ["a", "a#2"], ""),
        ([(1, "a"), (2, "a")], ["a#1", "a#2"], ""),  # neither could be used
        ([(1, "line#1")], ["line#1"], ""),
        ([A, B], ["a"], "2 records were read, but 1 were written (lost: 'b')"),
        ([A], ["a", "c"], "1 records were read, but 2 were written (never read: 'c')"),
        ([A, B], ["a", "c"], "2 records were read, but 2 were written (lost: 'b'; never read: 'c')"),
        ([(1, "a"), (2, "a")], ["a"], "2 records were read, but 1 were written (lost: 'a')"),
        ([(1, "a")], ["a#1"], "1 records were read, but 1 were written (lost: 'a'; never read: 'a#1')"),
        (
            [(number, f"r{number}") for number in range(9)],
            [],
            "9 records were read, but 0 were written (lost: 'r0', 'r1', 'r2', 'r3', 'r4', …)",
        ),
    ],
)
def test_conservation(tmp_path: Path, read: list[tuple[int, str]], ends: list[str], said: str) -> None:
    assert figures(tmp_path, read, sft=[end(name) for name in ends]).unbalanced == said


def test_a_record_in_two_sets(tmp_path: Path) -> None:
    found = figures(tmp_path, [A, B], sft=[end("a")], rl=[end("a")])
    assert found.unbalanced == "2 records were read, but 2 were written (lost: 'b'; written twice: 'a')"


def test_calls_and_what_they_are_worth(tmp_path: Path) -> None:
    """A reply that two records use is worth its price once; a sample's calls count once, though drafts carry them."""
    of_sample = call("sample", 9, usd=4.0)
    found = figures(
        tmp_path,
        [A, B],
        (SideCalls("x", "sample", "", (of_sample,)), SideCalls("y", "sample", "call_failed", ())),
        sft=[end("a", [], [call("verify", 1, 2, usd=0.1), call("attempt", 3, role="policy"), of_sample])],
        rejected=[rejection("b", "verify", "low", [], [call("verify", 2, usd=0.1, repairs=1), of_sample])],
    )
    assert found.asked == {
        ("judge", "sample"): Usage(calls=1, cached=1, worth_usd=4.0),
        ("judge", "verify"): Usage(calls=2, cached=3, repairs=1, worth_usd=0.2),
        ("policy", "attempt"): Usage(calls=1, cached=1),
    }
    assert (found.entered("sample"), found.passed("sample")) == (2, 1)
    usd = {"worth_usd": 0.3, "worth_usd_squared": pytest.approx(0.2**2 + 0.1**2)}
    assert found.forecast == {"records": 2, "calls": 3, "calls_squared": 5, **usd}


def test_replies_of_other_models_count_once_each(tmp_path: Path) -> None:
    """By the name that the server gave; two records use reply 2, and two roles reply 5."""
    named = replace(call("verify", 1, 2, 3), answered_by=("old", "", "new"))
    others = [replace(call("verify", 2, 3, 4), answered_by=("", "new", "new")), call("verify", 6)]
    shared = [replace(call("point", 5, role=role), answered_by=("path/x",)) for role in ("pointer", "detector")]
    found = figures(tmp_path, [A, B], sft=[end("a", [], [named, *shared])], rl=[end("b", [], others)])
    assert found.answered == {"judge": {"new": 2, "old": 1}, "detector": {"path/x": 1}}


def test_what_was_written_twice_counts_once(tmp_path: Path) -> None:
    """A runner writes a shard twice; one of the two reached the manifest."""
    folder = write_job(tmp_path, [A], {"sft": [end("a", ["ingest"], [call("verify", 1)])]})
    write_set(folder, "sft", [end("a", ["ingest"], [call("verify", 1)])])
    found = figures_of(read_job(folder), frozenset())
    assert (found.counts.sft, found.entered("ingest"), found.asked["judge", "verify"].calls) == (1, 1, 1)


@pytest.mark.parametrize("where", ["record", "sample"])
def test_a_budget_that_ended(tmp_path: Path, where: str) -> None:
    side = (SideCalls("x", "sample", "budget", ()),) if where == "sample" else ()
    ends = [rejection("a", "verify", "budget")] if where == "record" else [rejection("a", "verify", "low")]
    assert figures(tmp_path, [A], side, rejected=ends).refused


def paid(name: str, stage: str = "verify", replies: int = 1, role: str = "judge", **usage: float) -> Paid:
    known = {"requests": 1, "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0}
    return Paid(name, role, stage=stage, replies=replies, **known | usage)  # type: ignore[arg-type]


def test_the_ledger_by_role_and_stage() -> None:
    asked = {("judge", "verify"): Usage(calls=3, repairs=1, cached=5, worth_usd=0.5)}
    notes = [paid("1", cost_usd=0.1, tokens_out=7), paid("2", retries=1, tokens_wasted=3), paid("3", "attempt", 0)]
    verify = Usage(calls=3, requests=2, cached=3, retries=1, repairs=1, tokens_out=7, tokens_wasted=3, cost_usd=0.1)
    assert ledger(asked, notes) == {
        "judge": RoleLedger({"attempt": Usage(requests=1), "verify": replace(verify, worth_usd=0.5)})
    }


def test_replies_that_no_record_uses_make_no_debt_in_the_cache() -> None:
    """A worker was lost behind a reply, which was asked for again."""
    asked = {("judge", "verify"): Usage(calls=1, cached=1)}
    found = ledger(asked, [paid("1"), paid("2")])
    assert found["judge"].usage == Usage(calls=1, requests=2)


def test_how_far_two_judges_agree(tmp_path: Path) -> None:
    """20 yes/yes, 15 no/no, 5 and 10 mixed: p_o 0.7, p_e 0.5, κ 0.4; what a judge left unscored is left out."""
    pairs = {("yes", "yes"): 20, ("no", "no"): 15, ("yes", "no"): 5, ("no", "yes"): 10, ("unscored", "yes"): 3}
    said = [("reasoning", *pair) for pair, number in pairs.items() for _ in range(number)]
    found = figures(tmp_path, [A, B], sft=[end("a", labels=said[:30])], rl=[end("b", labels=said[30:])])
    assert found.labels == {"reasoning": pairs}
    expected = {"n": 50, "left_out": 3, "observed": 0.7, "kappa": pytest.approx(0.4)}
    assert agreements(found.labels) == {"reasoning": expected}
    assert agreements({}) == {}


def cut(stage: str, *keys: int, of: tuple[int, ...] = (), max_tokens: int = 64, role: str = "policy") -> Call:
    """A call of which the replies ``of`` were cut off."""
    return replace(call(stage, *keys, role=role), truncated=tuple(map(key_of, of)), max_tokens=max_tokens if of else 0)


def test_replies_that_were_cut_off(tmp_path: Path) -> None:
    """Each reply counts once, whoever asks for it and however often; one that came whole in the end is none."""
    found = figures(
        tmp_path,
        [A, B],
        (SideCalls("x", "sample", "", (cut("sample", 9, of=(9,), role="judge"),)),),
        sft=[end("a", [], [cut("attempt", 1, 2, 3, of=(1, 2)), cut("propose", 5, of=(5,)), cut("propose", 5)])],
        rejected=[rejection("b", "trace", "truncated", [], [cut("attempt", 2, 4, of=(2,), max_tokens=128)])],
    )
    assert found.truncated == {("judge", "sample"): (1, 1, 64), ("policy", "attempt"): (4, 2, 128)}


def test_where_nothing_was_cut_off_nothing_is_said(tmp_path: Path) -> None:
    assert figures(tmp_path, [A], sft=[end("a", [], [cut("attempt", 1, 2)])]).truncated == {}
