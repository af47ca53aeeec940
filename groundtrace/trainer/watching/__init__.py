"""Shows a training to users while it runs: the page train.html, and the metrics in TensorBoard, W&B and trackio."""
