"""Lists the files that the page of ``beam view`` loads, such as its scripts.

The server sends these files to the browser. A copy of the page contains the same files.
"""

SCRIPTS = ("page.js", "rows.js", "picture.js", "record.js", "marks.js", "audit.js", "replay.js", "view.js")
"""The scripts of ``view.html``, in the order in which it loads them: ``page.js`` has what all others use."""

FILES = (*SCRIPTS, "view.css", "icon.svg")
