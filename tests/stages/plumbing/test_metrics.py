"""What is counted: metrics that a runner adds up, and the board of this process."""

import threading
import time
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from groundtrace.schemas.records import Call, Rejected
from groundtrace.schemas.usage import Usage
from groundtrace.stages.plumbing.metrics import (
    RATE_OVER_S,
    StageProgress,
    board,
    clear_board,
    count_call,
    count_in,
    count_kept,
    count_rejected,
    progress,
)
from groundtrace.stages.plumbing.options import Options


@pytest.fixture(autouse=True)
def empty_board() -> Iterator[None]:
    clear_board()
    yield
    clear_board()


TAKEN = Usage(
    calls=1, requests=2, cached=1, retries=1, tokens_in=100, tokens_out=20, tokens_reasoning=7, cost_usd=0.0000125
)
CALL = Call("teacher", "trace.v1", "s", "m", ("a", "b"), TAKEN)
CACHED = Call("teacher", "trace.v1", "s", "m", ("a",), Usage(calls=1, cached=3))


class Count(beam.DoFn):
    """Counts even numbers as kept and odd ones as rejected, with a call each."""

    def process(self, number: int) -> Iterator[int]:
        count_in("sieve")
        count_call("sieve", CALL if number % 2 else CACHED)
        if number % 2:
            count_rejected(Rejected(str(number), "sieve", "too_easy", "odd"))
        else:
            count_kept("sieve")
            yield number


def test_the_metrics_of_a_pipeline() -> None:
    pipeline = beam.Pipeline(FnApiRunner(), Options([]))
    _ = pipeline | beam.Create(range(5)) | beam.ParDo(Count())
    found = pipeline.run().metrics().query()["counters"]
    counters = {(row.key.metric.namespace, row.key.metric.name): row.committed for row in found}
    assert {key: value for key, value in counters.items() if "sieve" in key[0]} == {
        ("stage/sieve", "in"): 5,
        ("stage/sieve", "kept"): 3,
        ("rejected/sieve", "too_easy"): 2,
    }
    live = board()["sieve"]
    assert (live.seen, live.kept, live.rejected, live.requests, live.cached) == (5, 3, 2, 4, 11)


def test_the_board_keeps_the_order_in_which_stages_began() -> None:
    for stage in ("clean", "attempt", "clean", "verify"):
        progress(stage).seen += 1
    assert [(stage, live.seen) for stage, live in board().items()] == [("clean", 2), ("attempt", 1), ("verify", 1)]


def test_the_board_given_out_is_a_copy() -> None:
    progress("clean")
    given = board()
    progress("attempt")
    assert list(given) == ["clean"]
    clear_board()
    assert board() == {}
    assert list(given) == ["clean"]


def test_threads_find_the_same_figures() -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(progress("clean"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len({id(live) for live in found}) == 1


@pytest.mark.parametrize(
    ("ends_s", "now_s", "rate"),
    [
        ([], 105.0, 0.0),
        ([100.5, 101.0, 101.9], 102.0, 3 / 2),  # since it began
        ([101.0] * 50, 110.0, 50 / 9),
        ([101.0] * 50, 111.0, 0.0),  # what is longer ago no longer counts
        ([101.0] * 50 + [104.2], 110.5, 51 / 9.5),
        ([100.0 + second for second in range(100)], 200.0, 1.0),
    ],
)
def test_the_rate_is_that_of_the_last_seconds(ends_s: list[float], now_s: float, rate: float) -> None:
    stage = StageProgress(started_s=100.0)
    for at_s in ends_s:
        stage.end(at_s)
    assert stage.per_second(now_s) == pytest.approx(rate)
    assert len(stage._ended) <= RATE_OVER_S


def test_what_ends_is_counted_in_the_rate() -> None:
    count_kept("clean")
    count_rejected(Rejected("a", "clean", "too_easy", "odd"))
    assert progress("clean").per_second(time.monotonic()) > 0
