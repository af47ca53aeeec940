"""What a run shows and sends out: figures, data card, report."""
