"""Messages between the parts of the sandbox: what is sent is read, and what is no message is refused."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.sandbox.inside import frames

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


def read(data: bytes, max_bytes: int = 1 << 20) -> Any:
    stream = io.BytesIO(data)

    def exactly(size: int) -> bytes:
        found = stream.read(size)
        if len(found) < size:
            raise EOFError
        return found

    return frames.read(exactly, max_bytes)


@given(
    st.dictionaries(st.text().filter(lambda name: name != "parts"), JSON, max_size=3), st.lists(st.binary(), max_size=3)
)
def test_what_is_sent_is_read(header: dict[str, Any], parts: list[bytes]) -> None:
    assert read(frames.pack(header, parts)) == (header, parts)


@given(st.binary(max_size=200))
def test_anything_else_is_an_error_of_two_kinds(data: bytes) -> None:
    try:
        read(data, 100)
    except (frames.BadFrame, EOFError):
        return
    assert data.startswith(b"\0")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xff\xff\xff", "the message has 4294967295 bytes, but at most 1048576 are allowed"),
        (b"\0\0\0\1[", "is not JSON"),
        (b"\0\0\0\2[]", "no valid list of the lengths"),
        (b"\0\0\0\2{}", "no valid list of the lengths"),
        (b'\0\0\0\x0d{"parts":[-1]}'.replace(b"\x0d", b"\x0e"), "no valid list of the lengths"),
        (b'\0\0\0\x10{"parts":[true]}', "no valid list of the lengths"),
        (
            b'\0\0\0\x16{"parts":[100,1000000]}'.replace(b"\x16", b"\x17"),
            "the message has 1000100 bytes, but at most 500",
        ),
        (b'\0\0\x21\xa5{"parts":[' + b"9" * 4300 + b"," + b"9" * 4300 + b"]}", "no valid list of the lengths"),
        (b'\0\0\x20\x0d{"parts":[' + b",".join([b"0"] * 4097) + b"]}", "the message has 4097 parts, but at most 4096"),
        (b"\0\0\xc3\x50" + b"[" * 50000, "is not JSON"),
    ],
)
def test_each_is_refused_with_its_reason(data: bytes, said: str) -> None:
    with pytest.raises(frames.BadFrame, match=said):
        read(data, 500)
