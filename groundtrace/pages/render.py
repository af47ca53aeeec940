"""Renders the HTML pages about a run (a pipeline's execution) or a training.

Each page is one file, which needs neither a network nor a script.

The content security policy of every page forbids network access and scripts. So a text that a model wrote is harmless,
even if a template fails to escape it.
"""

import functools
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import jinja2

from groundtrace.pages.compiled_templates import compiled_templates
from groundtrace.schemas.text import counted, dollars

HERE = "groundtrace.pages"
_COMMIT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")


def render(package: str, template: str, **values: Any) -> str:
    """Fill a Jinja template with values, and return the resulting HTML page.

    ``package`` is the Python package that contains the template, and ``template`` is the name of its file. The template
    can also use the templates of :mod:`groundtrace.pages`, such as ``page.html.jinja``, the layout of all pages.
    ``values`` are the variables of the template. If the value ``failure`` (a description of an error) is given and is
    not None, the page shows it at the top.
    """
    return _environment(package).get_template(template).render({"failure": None} | values)


@functools.cache
def _environment(package: str) -> jinja2.Environment:
    """Return the Jinja environment for a package's templates. Each package has one environment, which is used again, so
    that a process does not compile a template for each page.
    """
    environment = jinja2.Environment(
        bytecode_cache=compiled_templates(resources.files(package), "escaped-1"),
        loader=jinja2.ChoiceLoader(
            [jinja2.FunctionLoader(_source_in(package)), jinja2.FunctionLoader(_source_in(HERE))]
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


def _source_in(package: str) -> Callable[[str], str | None]:
    """Return a function that returns the text of a template file of the package, or None if the file does not exist."""

    def source(name: str) -> str | None:
        file = resources.files(package).joinpath(name)
        return file.read_text("utf-8") if file.is_file() else None

    return source


def duration(seconds: float) -> str:
    """Return a duration as text, such as ``6.0 s``, ``4 min 5 s`` or ``3 h 10 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    return f"{minutes} min {rest_s} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
