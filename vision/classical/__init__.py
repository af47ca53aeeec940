"""The embedded classical engine: reads pictures of flat coloured shapes with OpenCV, or says it cannot."""
