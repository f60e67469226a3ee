"""From a folder of lessons to passages in the index."""
