"""Card templates and the cards of published data sets."""

if __name__ != "groundtrace.data_cards":  # as where a script has the repository's top on its path
    raise ImportError(
        "import this package as groundtrace.data_cards: under another name, Python would load its classes twice"
    )
