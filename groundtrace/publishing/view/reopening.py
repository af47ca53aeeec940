"""Lets the command ``beam view`` read a run again after the run's files have changed. The browser stays on the same
address.
"""

import html
import threading

from aiohttp import web

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="1">
<link rel="stylesheet" href="/view.css"><title>Groundtrace: reading the run again</title>
<main><p>The run folder has changed. The rows of the run are being read again.</p>{error}</main></html>
"""


class Reopening:
    """Passes the request for a changed run from the HTTP server to the command that reads runs.

    The server calls :meth:`response` if a browser loads the page of a run that has changed. The command waits for
    ``wanted``, reads the run again, and starts a new server on the same address. If the run cannot be read, the command
    puts the reason into ``error``, and the old server continues.
    """

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self.error = ""

    def response(self) -> web.Response:
        """Request that the run is read again, and return a page that loads its own address again every second."""
        self.wanted.set()
        error = self.error and f"<p>It cannot be read at present: {html.escape(self.error)}</p>"
        return web.Response(status=503, text=PAGE.format(error=error), content_type="text/html")
