import pytest

from groundtrace.publishing.front_matter import HUB_LICENCES, licence_fields, size_category


@pytest.mark.parametrize(
    ("recorded", "fields"),
    [
        (set(), {}),
        ({"CC-BY-4.0"}, {"license": "cc-by-4.0"}),
        ({" mit "}, {"license": "mit"}),
        ({"MIT License", "mit"}, {"license": "mit"}),
        ({"MIT", "Apache-2.0"}, {"license": ["apache-2.0", "mit"]}),
        ({"MIT", "MIT (repo); photos third-party"}, {"license": "other", "license_name": "per-row"}),
        ({None}, {"license": "other", "license_name": "per-row"}),
        ({""}, {"license": "other", "license_name": "per-row"}),
    ],
)
def test_licences_are_never_made_up(recorded: set[str | None], fields: dict[str, object]) -> None:
    assert licence_fields(recorded) == fields
    assert all(licence == licence.lower() for licence in HUB_LICENCES)


@pytest.mark.parametrize(
    ("rows", "category"),
    [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (99_999, "10K<n<100K"), (10**6, "1M<n<10M")],
)
def test_size_categories(rows: int, category: str) -> None:
    assert size_category(rows) == category
