"""What comes out of the sandbox as an observation: none of it is trusted."""

from typing import Any

import numpy as np
import pytest

from groundtrace.sandbox.observation import BadObservation, Observation, observation_of

GOOD: dict[str, Any] = {
    "status": "ok",
    "error": "",
    "sizes": [],
    "left_out": 0,
    "ended": [0, 0],
    "dropped": [0, 0],
    "duration_s": 0.5,
}


def seen(*pixels: bytes, out: bytes = b"a", err: bytes = b"", **changed: Any) -> Observation:
    return observation_of({**GOOD, **changed}, [out, err, *pixels], 10, 100_000)


@pytest.mark.parametrize(
    ("out", "changed", "expected"),
    [
        (b"a\n", {}, ("ok", "a\n")),
        (b" \n", {}, ("silent", " \n")),
        (b" \n", {"status": "error"}, ("error", " \n")),
        (b"\xff\0\xed\xa0\x80", {}, ("ok", "\ufffd\ufffd\ufffd\ufffd\ufffd")),
        ("é".encode() * 12, {}, ("ok", "é" * 10)),
    ],
)
def test_status_and_text(out: bytes, changed: dict[str, Any], expected: tuple[str, str]) -> None:
    found = seen(out=out, **changed)
    assert (found.status, found.stdout) == expected
    found.text.encode()


def test_images_are_raw_pixels_of_the_size_that_they_have() -> None:
    found = seen(bytes(range(3)) * 6000, bytes(3 * 20 * 40), bytes(3 * 401 * 2), sizes=[[60, 100], [20, 40], [401, 2]])
    assert [image.shape for image in found.images] == [(60, 100, 3), (112, 224, 3)]
    assert found.images[0][0, 0].tolist() == [0, 1, 2] and found.images_left_out == 1
    assert found.images[0].dtype == np.uint8


@pytest.mark.parametrize(
    ("pixels", "changed"),
    [
        ((), {"status": "fine"}),
        ((), {"status": None}),
        ((b"abc",), {"sizes": []}),
        ((), {"sizes": [[1, 1]]}),
        ((b"abc",), {"sizes": [[1, 2]]}),
        ((b"",), {"sizes": [[0, 5]]}),
        ((b"abc",), {"sizes": [[-1, -1]]}),
        ((b"abc",), {"sizes": [[1.0, 1]]}),
        ((b"abc",), {"sizes": [[1]]}),
        ((b"abc" * 200_000,), {"sizes": [[1000, 200]]}),
        ((), {"left_out": -1}),
        ((), {"ended": [0]}),
        ((), {"ended": [0, True]}),
        ((), {"dropped": None}),
    ],
)
def test_what_is_no_observation_is_refused(pixels: tuple[bytes, ...], changed: dict[str, Any]) -> None:
    with pytest.raises(BadObservation):
        seen(*pixels, **changed)


def test_the_text_for_a_policy_has_all_of_it_in_order() -> None:
    found = seen(out=b"out\n", err=b"err\n", status="error", error="E: x", left_out=2, ended=[1, 2], dropped=[3, 0])
    assert found.text == (
        "out\nerr\nE: x\n[3 further characters are left out]\n[2 further images are left out]\n"
        "[1 threads and 2 processes that the code left were ended]"
    )
