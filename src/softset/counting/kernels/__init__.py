"""Speed only. ``compose`` of each kernel is the reference; a kernel that disagrees is wrong."""
