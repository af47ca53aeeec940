"""Which formats there are."""

import pytest

from groundtrace.stages.sources.base import RowSettings, Source
from groundtrace.stages.sources.registry import FORMATS, format_of, read_source
from groundtrace.vision.media import MediaStore


def test_every_format_has_a_name_of_its_own() -> None:
    assert [each.name for each in FORMATS] == ["table", "jsonl", "parquet", "datasets"]
    assert [format_of(Source(each.name, "x")) for each in FORMATS] == FORMATS


def test_only_data_sets_are_read_whole_and_tell_nothing_before() -> None:
    assert [each.name for each in FORMATS if each.is_read_whole] == ["datasets"]
    source = Source("datasets", "org/name")
    assert (format_of(source).count(source), list(format_of(source).media(source, RowSettings()))) == (None, [])


def test_a_source_of_no_format(store: MediaStore) -> None:
    with pytest.raises(ValueError, match=r"rows\.xyz: there is no input format 'xyz'"):
        read_source(Source("xyz", "rows.xyz"), RowSettings(), store)
