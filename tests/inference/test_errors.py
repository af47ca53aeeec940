"""Whose doing a failed call is, and what a call that waited for another one learns of its failure."""

import pytest

from groundtrace.inference.errors import CallError, Failure
from groundtrace.inference.request import Reply
from groundtrace.schemas.usage import Usage

OF_REQUEST = {
    Failure.EMPTY,
    Failure.REFUSED,
    Failure.BAD_REQUEST,
    Failure.UNSUPPORTED,
    Failure.UNKNOWN_LABEL,
    Failure.STOPPED,
}


@pytest.mark.parametrize("failure", Failure)
def test_the_servers_failures(failure: Failure) -> None:
    assert CallError(failure, "said").is_of_server is (failure not in OF_REQUEST)


@pytest.mark.parametrize(
    ("status", "is_of_server"), [(400, False), (401, True), (402, True), (403, True), (404, True), (413, False)]
)
def test_a_status_with_which_each_request_is_refused_is_the_servers(status: int, is_of_server: bool) -> None:
    assert CallError(Failure.BAD_REQUEST, "said", status=status).is_of_server is is_of_server


def test_a_copy_for_another_call_keeps_all_but_the_usage() -> None:
    partial = Reply((), Usage(requests=1))
    error = CallError(
        Failure.OVERLOADED, "said", status=503, unreachable=True, retry_after_s=2.0, key="k", partial=partial
    )
    copy = error.without_usage()
    assert (copy.failure, copy.message, copy.status, copy.unreachable) == (Failure.OVERLOADED, "said", 503, True)
    assert (copy.retry_after_s, copy.key, copy.is_of_server) == (2.0, "k", True)
    assert copy.partial == Reply(())
