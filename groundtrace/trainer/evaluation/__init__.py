"""Evaluates a trained model: samples its answers, computes metrics, and writes an HTML page with them."""
