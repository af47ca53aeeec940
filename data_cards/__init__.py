"""Holds the template of the data card, the page that describes a data set (:mod:`groundtrace.publishing.card`)."""

if __name__ != "groundtrace.data_cards":  # e.g. if the root of the repository is on sys.path
    raise ImportError(
        "import this package as groundtrace.data_cards: under another name, Python would load its classes twice"
    )
