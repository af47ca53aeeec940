"""The files of the page of `beam view`."""

import re
from importlib import resources

from groundtrace.publishing.view.files import FILES, SCRIPTS

PACKAGE = resources.files("groundtrace.publishing.view")


def test_the_page_loads_the_listed_files_in_their_order() -> None:
    page = PACKAGE.joinpath("view.html").read_text("utf-8")
    assert tuple(re.findall(r'<script src="/(.*?)" defer>', page)) == SCRIPTS
    assert set(re.findall(r' (?:src|href)="/([\w.]+)"', page)) == set(FILES)
    assert [name for name in FILES if not PACKAGE.joinpath(name).is_file()] == []


def test_no_two_scripts_declare_the_same_name() -> None:
    declared = [
        name
        for script in SCRIPTS
        for name in re.findall(
            r"^(?:async )?(?:function|const|let|class) (\w+)", PACKAGE.joinpath(script).read_text("utf-8"), re.MULTILINE
        )
    ]
    assert len(declared) == len(set(declared)) > 50
