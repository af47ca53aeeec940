"""Puts an HTML page into a frame, so that a notebook can show it safely.

The texts of models are untrusted, and a notebook would execute a script in them. So the page is shown in a sandboxed
``iframe``, which runs no script and loads nothing from the network. In the frame, the page's own content security
policy still applies: like every page of :mod:`groundtrace.pages.render`, it forbids scripts and network access.
"""

import html

HEIGHT_PX = 760


def framed(page: str, height_px: int = HEIGHT_PX) -> str:
    """Return an HTML ``iframe`` element that shows the page.

    ``page`` is the HTML text of a complete page. ``height_px`` is the initial height of the frame in pixels; a user can
    change it with the mouse.
    """
    style = f"width:100%;height:{height_px}px;border:1px solid #8884;border-radius:8px;resize:vertical"
    return f'<iframe sandbox srcdoc="{html.escape(page, quote=True)}" style="{style}"></iframe>'
