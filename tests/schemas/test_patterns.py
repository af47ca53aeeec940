import pickle
import re

import pytest

from groundtrace.schemas.patterns import compile_late


def test_the_results_are_those_of_the_compiled_pattern() -> None:
    late, compiled = compile_late("(?P<a>x+)|y", re.IGNORECASE), re.compile("(?P<a>x+)|y", re.IGNORECASE)
    for _ in range(2):
        assert late.sub("-", "aXXby") == compiled.sub("-", "aXXby") == "a-b-"
        assert [found.span() for found in late.finditer("yxx")] == [(0, 1), (1, 3)]
        assert late.fullmatch("z") is None
    assert (late.pattern, late.flags, late.groups) == (compiled.pattern, compiled.flags, compiled.groups)
    assert late.groupindex == compiled.groupindex


def test_a_pickled_pattern_is_the_same() -> None:
    late = compile_late("x", re.IGNORECASE)
    assert late.match("X")
    assert pickle.loads(pickle.dumps(late)).match("X")


def test_an_invalid_pattern_is_found_at_its_first_use() -> None:
    late = compile_late("(")
    with pytest.raises(re.error, match="unterminated"):
        late.match("x")
    with pytest.raises(AttributeError):
        _ = compile_late("x").nothing  # type: ignore[attr-defined]
