"""Handles images and clips: decoding, media references, hashes, crops and overlays."""
