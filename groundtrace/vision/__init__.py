"""Images and clips: decoding, media references, hashes, crops, overlays and the embedded engine's algorithms."""
