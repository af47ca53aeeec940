"""Lists the files of the page of ``beam view`` that the server and the copies of a page share."""

SCRIPTS = ("page.js", "rows.js", "picture.js", "record.js", "marks.js", "audit.js", "replay.js", "view.js")
"""The scripts of ``view.html``, in the order in which it loads them: ``page.js`` has what all others use."""

FILES = (*SCRIPTS, "view.css", "icon.svg")
