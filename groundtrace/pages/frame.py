"""Puts a page into a frame for a notebook.

Texts of models are untrusted, and a notebook's page would execute a script in them. So the HTML stays a page of its
own, with the content security policy of all pages (:mod:`groundtrace.pages.render`), in a sandboxed frame that runs no
script and loads nothing.
"""

import html

HEIGHT_PX = 760


def framed(page: str, height_px: int = HEIGHT_PX) -> str:
    """Return an HTML element that shows a page. A user can change the frame's height with the mouse."""
    style = f"width:100%;height:{height_px}px;border:1px solid #8884;border-radius:8px;resize:vertical"
    return f'<iframe sandbox srcdoc="{html.escape(page, quote=True)}" style="{style}"></iframe>'
