"""The embedded classical engine: reads images of flat coloured shapes with OpenCV, or returns None ("cannot read")."""
