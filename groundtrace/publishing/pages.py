"""Renders the HTML pages about a run. Each page is one file that needs neither a network nor a script.

The content security policy of every page forbids network access and scripts. So a model's reply would be harmless even
if it were not escaped.
"""

import functools
import re
from importlib import resources
from typing import Any

import jinja2

from groundtrace.schemas.text import counted, dollars

_UTC = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\+00:00")
_COMMIT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")


def render(template: str, **values: Any) -> str:
    """Return the page that a template gives with these values. ``template`` is the name of a file of this package.

    If ``failure`` is among the values, the page shows this failure at the top.
    """
    return _environment().get_template(template).render({"failure": None} | values)


@functools.cache
def _environment() -> jinja2.Environment:
    """Return the template environment, which compiles each template once."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(
            lambda name: resources.files("groundtrace.publishing").joinpath(name).read_text("utf-8")
        ),
        autoescape=True,
        auto_reload=False,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "clip": lambda text, size: text if len(text) <= size else f"{text[: size - 1]}…",
        "counted": lambda number, thing: f"{number:,} {counted(number, thing).split(' ', 1)[1]}",
        "duration": duration,
        "number": lambda value: f"{value:,}",
        "short": lambda text: _COMMIT.sub(r"\1", text),
        "time": lambda text: (
            text.replace("T", " ").removesuffix("+00:00") + (" UTC" if text.endswith("+00:00") else "")
        ),
        "usd": dollars,
    }
    return environment


def duration(seconds: float) -> str:
    """Return a duration as text, such as ``6.0 s``, ``4 min 5 s`` or ``3 h 10 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    return f"{minutes} min {rest_s} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
