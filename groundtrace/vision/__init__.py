"""Pixels: decoding, media by reference, hashes, overlays and the embedded engine's algorithms."""
