"""The papers' data sets: readers, downloads, splits."""
