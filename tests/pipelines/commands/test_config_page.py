"""The page about configs is what the settings say."""

from groundtrace.pipelines.commands.config_page import PAGE, config_page


def test_the_page_is_up_to_date() -> None:
    said = "docs/config.md is stale: run python -m groundtrace.pipelines.commands.config_page"
    assert PAGE.read_text("utf-8") == config_page(), said
