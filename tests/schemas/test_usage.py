import json
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from groundtrace.schemas.usage import NOTHING, ONE_CALL, ONE_REQUEST, USAGE_FIELDS, Usage

COUNTS = st.integers(0, 10**9)
DOLLARS = st.integers(0, 10**6).map(lambda quarters: quarters / 4)  # their sums are exact
USAGES = st.builds(Usage, *[DOLLARS if name.endswith("_usd") else COUNTS for name in USAGE_FIELDS])


def test_the_names_are_those_of_the_ledger_in_its_order() -> None:
    assert USAGE_FIELDS == (
        "calls",
        "requests",
        "cached",
        "retries",
        "repairs",
        "tokens_in",
        "tokens_out",
        "tokens_reasoning",
        "tokens_cached",
        "tokens_wasted",
        "cost_usd",
        "worth_usd",
    )


@given(USAGES, USAGES, USAGES)
def test_addition(one: Usage, two: Usage, three: Usage) -> None:
    for name in USAGE_FIELDS:
        assert getattr(one + two, name) == getattr(one, name) + getattr(two, name)
    assert one + NOTHING == one
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert sum([one, two, three], NOTHING) == one + two + three


def test_what_one_call_and_one_request_count() -> None:
    assert Usage(calls=1, requests=1) == ONE_CALL + ONE_REQUEST


def test_a_ledger_entry_is_read_back() -> None:
    entry = json.loads('{"calls": 3, "requests": 2, "cost_usd": 0.5, "stages": {}, "of a later version": 1}')
    assert Usage.of(entry) == Usage(calls=3, requests=2, cost_usd=0.5)
    assert Usage.of({}) == NOTHING


def test_it_is_read_without_beam() -> None:
    code = "import sys, groundtrace.schemas.usage; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
