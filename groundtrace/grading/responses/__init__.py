"""Reading what models write: tags, anchors, times, thinking, pointing."""
