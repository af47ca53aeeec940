"""Card templates and the cards of published data sets."""
