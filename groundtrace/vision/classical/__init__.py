"""The embedded classical engine: reads images of flat coloured shapes with OpenCV, or says it cannot."""
