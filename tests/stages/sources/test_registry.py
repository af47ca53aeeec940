"""Which formats there are."""

import pytest

from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.registry import FORMATS, format_of, formats, read_source
from groundtrace.vision.media import MediaStore


def test_formats_are_asked_in_their_order_and_data_sets_last() -> None:
    assert [each.name for each in formats()] == [*FORMATS.plugins, *FORMATS.ours]
    assert [*FORMATS.ours][-1] == "datasets"
    assert [format_of(Source(each.name, "x")) for each in formats()] == [*formats()]


def test_only_data_sets_are_read_whole_and_tell_nothing_before() -> None:
    assert [each.name for each in formats() if each.is_read_whole] == ["datasets"]
    source = Source("datasets", "org/name")
    assert (format_of(source).count(source), list(format_of(source).media(source, RowSettings()))) == (None, [])


def test_a_source_of_no_format(store: MediaStore) -> None:
    with pytest.raises(ValueError, match=r"rows\.xyz cannot be read: its input format must be one of .*, got 'xyz'"):
        read_source(Source("xyz", "rows.xyz"), RowSettings(), store)
