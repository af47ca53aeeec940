"""Shows a training to people while it runs: the page train.html, and the writers of TensorBoard, W&B and trackio."""
