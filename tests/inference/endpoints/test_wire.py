"""What an error over HTTP means, whatever form the server gives it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.inference.endpoints.wire import failure_of, json_bytes, message_of, retry_after_s, status_of
from groundtrace.inference.errors import Failure

TEXTS = st.text(st.characters())  # with lone surrogates
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(TEXTS, parts, max_size=4),
)


@given(st.dictionaries(TEXTS, JSON, max_size=4))
def test_a_body_is_the_same_json_for_every_encoder(body: dict[str, Any]) -> None:
    assert json.loads(json_bytes(body)) == body


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "too long", "type": "x"}}', "too long"),
        (b'{"error": "too long"}', "too long"),
        (b'{"message": "too long"}', "too long"),
        (b'{"detail": "too long"}', "too long"),
        (b'{"detail": [{"msg": "too long"}]}', '{"detail": [{"msg": "too long"}]}'),
        (b'{"error": {"message": 3}}', '{"error": {"message": 3}}'),
        (b"[]", "[]"),
        (b"null", "null"),
        (b"", ""),
        (b"<html>bad gateway", "<html>bad gateway"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"x" * 10_000, "x" * 10_000),
        (b"[" * 100_000, "[" * 100_000),
    ],
)
def test_what_an_error_body_says(body: bytes, said: str) -> None:
    assert message_of(body) == said


@pytest.mark.parametrize(
    ("statuses", "failure"),
    [
        ((401, 403), Failure.UNAUTHORISED),
        ((408,), Failure.TIMEOUT),
        ((429,), Failure.RATE_LIMITED),
        ((503, 504, 529), Failure.OVERLOADED),
        ((500, 501, 502, 507, 599), Failure.SERVER_ERROR),
        ((400, 402, 404, 405, 409, 413, 422), Failure.BAD_REQUEST),
        ((201, 204, 301, 307, 399), Failure.GARBLED),
    ],
)
def test_statuses(statuses: tuple[int, ...], failure: Failure) -> None:
    assert {failure_of(status) for status in statuses} == {failure}


@pytest.mark.parametrize(
    ("status", "body", "meant"),
    [
        (429, b'{"error": {"code": "insufficient_quota"}}', 402),
        (429, b'{"error": {"code": "slow_down"}}', 429),
        (400, b'[{"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}}]', 401),
        (400, b'{"error": {"message": "API_KEY_INVALID"}}', 400),
        (404, b"", 404),
    ],
)
def test_what_a_status_means(status: int, body: bytes, meant: int) -> None:
    assert status_of(status, body) == meant


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("0.5", 0.5),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("", None),
        ("soon", None),
        ("Fri, 02 Jan 2026 03:04:15 GMT", 10.0),
        ("Fri, 02 Jan 2026 03:04:15 +0000", 10.0),
        ("Fri, 02 Jan 2026 03:04:15 -0000", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Fri, 02 Jan 99999 03:04:15 GMT", None),
        ("Fri, 31 Feb 2026 03:04:15 GMT", None),
        ("Fri, 02 Jan 2026 03:04:15 +9999999999", None),
        ("Fri, 02 Jan 2026 03:04:15 +99999999999999999999", None),
        ("99999999999999999999 Jan 2026 03:04:15 GMT", None),
        ("Fri, 02 Jan 2026 99999999999999999999:04:15 GMT", None),
    ],
)
def test_retry_after(header: str, expected: float | None) -> None:
    assert retry_after_s(header, NOW) == expected


PIECES = ["Fri", ",", " ", "02", "Jan", "2026", "0000", "9999", "03", ":", "04", "+", "-", "99", "GMT", "T", "2359"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=14).map("".join))
def test_a_header_of_any_form_is_a_wait_or_none(header: str) -> None:
    wait_s = retry_after_s(header, NOW)
    assert wait_s is None or wait_s >= 0
