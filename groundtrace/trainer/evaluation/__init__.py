"""Evaluation of a trained model: how it is asked, its figures, and the page that shows them."""
