"""The comparison as a page: self-contained, in the order of the terminal, and harmless whatever the rows hold."""

import re
from pathlib import Path

from groundtrace.publishing.comparison.compare import Comparison, compare
from groundtrace.publishing.comparison.page import comparison_page

from .conftest import MakeRun, out, sft

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e{{ 7 * 7 }}"


def compared(first: Path, second: Path) -> Comparison:
    return compare(("runs/<b>one", first), ("runs/two", second))


def test_hostile_texts_are_shown_as_texts(make_run: MakeRun) -> None:
    more = {"question": HOSTILE, "source": HOSTILE}
    row = sft(HOSTILE, verdicts=[{"name": HOSTILE, "value": 1.0}]) | more
    first = make_run("a", {"sft": [row, sft("2")]}, input=HOSTILE)
    rejected = [out(HOSTILE, HOSTILE) | more, out("2", source="other")]
    second = make_run("b", {"rejected": rejected}, recipe=HOSTILE, roles={HOSTILE: HOSTILE}, revision=HOSTILE)
    page = comparison_page(compared(first, second))
    assert "<script" not in page and "<img" not in page and "<b>one" not in page and "49" not in page.split("<main>")[1]
    assert page.count("&lt;script&gt;alert(1)") >= 6
    assert set(re.findall(r"<[a-z]+[^<>]*?(?:src|href)=\"(.)", page.split("<main>")[1])) == {"#"}


def test_the_page_has_the_sections_of_the_terminal(make_run: MakeRun) -> None:
    found = compared(make_run("a", {"sft": [sft("1")]}), make_run("b", {"rejected": [out("1")]}, ledger={}))
    page = comparison_page(found)
    names = [section.name for section in found.sections]
    assert names == ["yields", "transitions", "ids", "scores", "funnel", "rejections", "costs"]
    assert re.findall(r'<section id="(\w+)">', page) == names
    assert "How many?" in page and "too_easy by far" in page and "1<i>→</i>0" in page


def test_equal_runs_have_a_page_that_says_so(make_run: MakeRun) -> None:
    rows = {"sft": [sft("1")]}
    page = comparison_page(compared(make_run("a", rows), make_run("b", rows)))
    assert "Nothing differs" in page and "<section" not in page
